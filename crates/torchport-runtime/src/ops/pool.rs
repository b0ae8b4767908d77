//! Maximum and average pooling in one, two and three dimensions, with fixed and adaptive windows.
//!
//! Each output line first reduces the lines its windows cover, elementwise, then the columns. Sums
//! are f64; NaN wins over every number in a maximum.

use super::kernel::{for_dtype, vectorised};
use super::norm::sum;
use super::real::{for_real, real_dtype, tensor_like, with_values, Real};
use super::windows::{Window, Windows};
use candle::{Result, Tensor, WithDType};
use rayon::prelude::*;

/// `torch.max_pool1d`, `2d` or `3d` by the length of `kernel`; an empty `stride` means the kernel.
pub fn max_pool(
    x: &Tensor,
    kernel: &[usize],
    stride: &[usize],
    padding: &[usize],
    dilation: &[usize],
    ceil_mode: bool,
) -> Result<Tensor> {
    let windows = Windows::fixed(x, kernel, stride, padding, dilation, ceil_mode)?;
    max_over(x, &windows)
}

/// `torch.avg_pool1d`, `2d` or `3d` by the length of `kernel`; an empty `stride` means the kernel.
pub fn avg_pool(
    x: &Tensor,
    kernel: &[usize],
    stride: &[usize],
    padding: &[usize],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<usize>,
) -> Result<Tensor> {
    let windows = Windows::fixed(x, kernel, stride, padding, &[1], ceil_mode)?;
    mean_over(x, &windows, |windows| match divisor_override {
        Some(divisor) => divisor,
        None if count_include_pad => windows.iter().map(|w| w.with_padding).product(),
        None => windows.iter().map(|w| w.end - w.start).product(),
    })
}

/// The mean of as many equal parts of each axis as `output` says.
pub fn adaptive_avg_pool(x: &Tensor, output: &[usize]) -> Result<Tensor> {
    mean_over(x, &Windows::adaptive(x, output)?, |windows| {
        windows.iter().map(|w| w.end - w.start).product()
    })
}

/// The maximum of as many equal parts of each axis as `output` says.
pub fn adaptive_max_pool(x: &Tensor, output: &[usize]) -> Result<Tensor> {
    max_over(x, &Windows::adaptive(x, output)?)
}

fn max_over(x: &Tensor, windows: &Windows) -> Result<Tensor> {
    for_dtype!("max_pool", x.dtype(), T => {
        let y = with_values::<T, _>(x, |x| Ok(maxima(x, windows)))?;
        tensor_like(x, y, &windows.shape)
    })
}

fn maxima<T: WithDType>(x: &[T], windows: &Windows) -> Vec<T> {
    let lowest = T::from_f64(f64::NEG_INFINITY);
    let width = windows.input[2];
    over_planes(x, windows, lowest, |columns, x, y| {
        windows.for_lines(y, |covered, _, y| {
            columns.fill(lowest);
            for line in covered {
                raise(columns, &x[line * width..][..width]);
            }
            for (y, window) in y.iter_mut().zip(&windows.axes[2]) {
                let window = columns[window.start..window.end]
                    .iter()
                    .step_by(window.step);
                *y = window.fold(lowest, |a, &b| larger(a, b));
            }
        });
    })
}

/// The larger of two values; NaN counts as the largest.
#[inline(always)]
#[allow(clippy::eq_op)] // only NaN differs from itself
fn larger<T: WithDType>(a: T, b: T) -> T {
    if b > a || b != b {
        b
    } else {
        a
    }
}

fn raise<T: WithDType>(maxima: &mut [T], values: &[T]) {
    vectorised(
        #[inline(always)]
        || {
            for (maximum, &value) in maxima.iter_mut().zip(values) {
                *maximum = larger(*maximum, value);
            }
        },
    )
}

fn mean_over(
    x: &Tensor,
    windows: &Windows,
    divisor: impl Fn([&Window; 3]) -> usize + Sync,
) -> Result<Tensor> {
    for_real!(real_dtype("average pooling", x.dtype())?, T => {
        let y = with_values::<T, _>(x, |x| Ok(means(x, windows, divisor)))?;
        tensor_like(x, y, &windows.shape)
    })
}

fn means<T: Real>(
    x: &[T],
    windows: &Windows,
    divisor: impl Fn([&Window; 3]) -> usize + Sync,
) -> Vec<T> {
    let width = windows.input[2];
    over_planes(x, windows, 0.0, |columns, x, y| {
        windows.for_lines(y, |covered, [d, h], y| {
            columns.fill(0.0);
            for line in covered {
                accumulate(columns, &x[line * width..][..width]);
            }
            for (y, w) in y.iter_mut().zip(&windows.axes[2]) {
                let values = &columns[w.start..w.end];
                let total = if values.len() < 16 {
                    values.iter().sum()
                } else {
                    sum(values)
                };
                let empty = covered.is_empty() || values.is_empty();
                *y = if empty {
                    T::ZERO
                } else {
                    T::narrow(total / divisor([d, h, w]) as f64)
                };
            }
        });
    })
}

fn accumulate<T: Real>(totals: &mut [f64], values: &[T]) {
    vectorised(
        #[inline(always)]
        || {
            for (total, value) in totals.iter_mut().zip(values) {
                *total += value.widen();
            }
        },
    )
}

/// Runs `plane(columns, input, output)` on every plane, in parallel; `columns` is room for a line.
fn over_planes<T: WithDType, C: Copy + Send + Sync>(
    x: &[T],
    windows: &Windows,
    column: C,
    plane: impl Fn(&mut [C], &[T], &mut [T]) + Sync,
) -> Vec<T> {
    let mut y = vec![T::zero(); windows.shape.iter().product()];
    if y.is_empty() {
        return y;
    }
    y.par_chunks_mut(windows.output_plane())
        .zip(x.par_chunks(windows.input.iter().product()))
        .for_each_init(
            || vec![column; windows.input[2]],
            |columns, (y, x)| plane(columns, x, y),
        );
    y
}

#[cfg(test)]
mod tests {
    use super::super::test_tensors::{line, values};
    use super::*;
    use candle::Device;

    #[test]
    fn ceil_mode_adds_a_window_that_begins_inside() -> Result<()> {
        let x = line(&[1.0, 5.0, 2.0, 4.0, 3.0])?;
        assert_eq!(
            values(max_pool(&x, &[2], &[2], &[0], &[1], false)?)?,
            [5.0, 4.0]
        );
        assert_eq!(
            values(max_pool(&x, &[2], &[2], &[0], &[1], true)?)?,
            [5.0, 4.0, 3.0]
        );
        // Here a third window would begin in the padding behind the input.
        let x = line(&[1.0, 5.0, 2.0])?;
        assert_eq!(
            values(max_pool(&x, &[2], &[2], &[1], &[1], true)?)?,
            [1.0, 5.0]
        );
        Ok(())
    }

    #[test]
    fn nan_wins_a_maximum_and_integers_pool_too() -> Result<()> {
        let y = values(max_pool(
            &line(&[1.0, f32::NAN, 2.0, 4.0])?,
            &[2],
            &[],
            &[0],
            &[1],
            false,
        )?)?;
        assert!(y[0].is_nan() && y[1] == 4.0);
        let x = Tensor::new(&[[-5i64, -7, -3, -9]], &Device::Cpu)?;
        assert_eq!(
            max_pool(&x, &[2], &[], &[1], &[1], false)?.to_vec2::<i64>()?,
            [[-5, -3, -9]]
        );
        Ok(())
    }

    #[test]
    fn padding_counts_in_an_average_or_not() -> Result<()> {
        let x = line(&[2.0, 4.0, 6.0])?;
        let average =
            |include, divisor| values(avg_pool(&x, &[2], &[2], &[1], false, include, divisor)?);
        assert_eq!(average(true, None)?, [1.0, 5.0]);
        assert_eq!(average(false, None)?, [2.0, 5.0]);
        assert_eq!(average(false, Some(4))?, [0.5, 2.5]);
        Ok(())
    }

    #[test]
    fn adaptive_windows_cover_all_and_may_overlap() -> Result<()> {
        let x = line(&[1.0, 2.0, 3.0, 4.0, 5.0])?;
        assert_eq!(values(adaptive_avg_pool(&x, &[2])?)?, [2.0, 4.0]);
        assert_eq!(values(adaptive_max_pool(&x, &[3])?)?, [2.0, 4.0, 5.0]);
        Ok(())
    }

    #[test]
    fn long_averages_keep_their_precision() -> Result<()> {
        let x = Tensor::full(0.1f32, (1, 1, 1000, 1000), &Device::Cpu)?;
        assert_eq!(values(adaptive_avg_pool(&x, &[1, 1])?)?, [0.1]);
        Ok(())
    }
}
