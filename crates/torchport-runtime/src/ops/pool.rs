//! Maximum and average pooling in one, two and three dimensions, with fixed and adaptive windows.
//!
//! Each output line first reduces the lines its windows cover, elementwise, then the columns. Sums
//! are f64; NaN wins over every number in a maximum.

use super::conv::per_axis;
use super::norm::sum;
use super::simd::simd;
use super::storage::{compute_dtype, tensor, with_any, with_real, with_values, Real};
use candle::{bail, Result, Tensor, WithDType};
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

/// What one output covers along one axis: every `step`-th of `start..end`, all inside the input.
struct Window {
    start: usize,
    end: usize,
    step: usize,
    with_padding: usize,
}

/// The windows of three axes; for fewer, those in front have one window of one element.
struct Windows {
    input: [usize; 3],
    axes: [Vec<Window>; 3],
    shape: Vec<usize>,
}

impl Windows {
    fn fixed(
        x: &Tensor,
        kernel: &[usize],
        stride: &[usize],
        padding: &[usize],
        dilation: &[usize],
        ceil_mode: bool,
    ) -> Result<Self> {
        let count = kernel.len();
        let stride = if stride.is_empty() { kernel } else { stride };
        let kernel = per_axis("pool", kernel, count, 1)?;
        let stride = per_axis("pool", stride, count, 1)?;
        let padding = per_axis("pool", padding, count, 0)?;
        let dilation = per_axis("pool", dilation, count, 1)?;
        Self::new(x, count, |axis, len| {
            let (kernel, padding) = (kernel[axis], padding[axis]);
            fixed_axis(
                len,
                kernel,
                stride[axis],
                padding,
                dilation[axis],
                ceil_mode,
            )
        })
    }

    fn adaptive(x: &Tensor, output: &[usize]) -> Result<Self> {
        let sizes = per_axis("adaptive pool", output, output.len(), 1)?;
        Self::new(x, output.len(), |axis, len| {
            Ok(adaptive_axis(len, sizes[axis]))
        })
    }

    fn new(
        x: &Tensor,
        count: usize,
        windows: impl Fn(usize, usize) -> Result<Vec<Window>>,
    ) -> Result<Self> {
        if !(1..=3).contains(&count) || !(count + 1..=count + 2).contains(&x.rank()) {
            bail!("no pooling of {count} axes of {:?}", x.shape());
        }
        let (outer, inner) = x.dims().split_at(x.rank() - count);
        let input = per_axis("pool", inner, count, 1)?;
        let axis = |axis| windows(axis, input[axis]);
        let axes = [axis(0)?, axis(1)?, axis(2)?];
        let inner = axes[3 - count..].iter().map(Vec::len);
        let shape = outer.iter().copied().chain(inner).collect();
        Ok(Self { input, axes, shape })
    }

    fn output_plane(&self) -> usize {
        self.axes.iter().map(Vec::len).product()
    }

    /// Runs `line(covered input lines, windows, output line)` for every line of one plane.
    fn for_lines<T>(&self, y: &mut [T], mut line: impl FnMut(&[usize], [&Window; 2], &mut [T])) {
        let [depth, height, width] = &self.axes;
        let mut lines = y.chunks_mut(width.len());
        let mut covered = vec![];
        for d in depth {
            for h in height {
                covered.clear();
                for d in (d.start..d.end).step_by(d.step) {
                    covered.extend(
                        (h.start..h.end)
                            .step_by(h.step)
                            .map(|h| d * self.input[1] + h),
                    );
                }
                if let Some(y) = lines.next() {
                    line(&covered, [d, h], y);
                }
            }
        }
    }
}

fn fixed_axis(
    len: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    ceil_mode: bool,
) -> Result<Vec<Window>> {
    if kernel == 0 || stride == 0 || dilation == 0 {
        bail!("pool: kernel, stride and dilation have to be positive");
    }
    let reach = dilation * (kernel - 1) + 1;
    if 2 * padding > reach {
        bail!("pool: padding {padding} is more than half of the kernel's reach of {reach}");
    }
    let Some(room) = (len + 2 * padding).checked_sub(reach) else {
        bail!(
            "pool: kernel reaches over {reach}, the padded input has {}",
            len + 2 * padding
        );
    };
    let mut count = room / stride + 1;
    // A window that begins behind the input would see nothing but padding.
    if ceil_mode && room % stride != 0 && count * stride < len + padding {
        count += 1;
    }
    let window = |index: usize| {
        let begin = index * stride;
        let skipped = padding.saturating_sub(begin).div_ceil(dilation) * dilation;
        let start = (begin + skipped - padding).min(len);
        let end = (begin + reach).saturating_sub(padding).clamp(start, len);
        let with_padding = (begin + reach).min(len + 2 * padding) - begin;
        Window {
            start,
            end,
            step: dilation,
            with_padding,
        }
    };
    Ok((0..count).map(window).collect())
}

fn adaptive_axis(len: usize, count: usize) -> Vec<Window> {
    let window = |index: usize| Window {
        start: index * len / count,
        end: ((index + 1) * len).div_ceil(count),
        step: 1,
        with_padding: 0,
    };
    (0..count).map(window).collect()
}

fn max_over(x: &Tensor, windows: &Windows) -> Result<Tensor> {
    with_any!(x.dtype(), "max_pool", T => {
        let y = with_values::<T, _>(x, "max_pool", |x| Ok(maxima(x, windows)))?;
        tensor(y, &windows.shape, x.dtype())
    })
}

fn maxima<T: WithDType>(x: &[T], windows: &Windows) -> Vec<T> {
    let lowest = T::from_f64(f64::NEG_INFINITY);
    let width = windows.input[2];
    over_planes(x, windows, |x, y| {
        let mut columns = vec![lowest; width];
        windows.for_lines(y, |covered, _, y| {
            columns.fill(lowest);
            for line in covered {
                raise(&mut columns, &x[line * width..][..width]);
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

simd! {
    fn raise<T: WithDType>(maxima: &mut [T], values: &[T]) {
        for (maximum, &value) in maxima.iter_mut().zip(values) {
            *maximum = larger(*maximum, value);
        }
    }
}

fn mean_over(
    x: &Tensor,
    windows: &Windows,
    divisor: impl Fn([&Window; 3]) -> usize + Sync,
) -> Result<Tensor> {
    with_real!(compute_dtype(x.dtype(), "average pooling")?, T => {
        let y = with_values::<T, _>(x, "avg_pool", |x| Ok(means(x, windows, divisor)))?;
        tensor(y, &windows.shape, x.dtype())
    })
}

fn means<T: Real>(
    x: &[T],
    windows: &Windows,
    divisor: impl Fn([&Window; 3]) -> usize + Sync,
) -> Vec<T> {
    let width = windows.input[2];
    over_planes(x, windows, |x, y| {
        let mut columns = vec![0.0; width];
        windows.for_lines(y, |covered, [d, h], y| {
            columns.fill(0.0);
            for line in covered {
                accumulate(&mut columns, &x[line * width..][..width]);
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

simd! {
    fn accumulate<T: Real>(totals: &mut [f64], values: &[T]) {
        for (total, value) in totals.iter_mut().zip(values) {
            *total += value.widen();
        }
    }
}

/// Runs `plane(input, output)` on every plane, in parallel.
fn over_planes<T: WithDType>(
    x: &[T],
    windows: &Windows,
    plane: impl Fn(&[T], &mut [T]) + Sync,
) -> Vec<T> {
    let mut y = vec![T::zero(); windows.shape.iter().product()];
    let input: usize = windows.input.iter().product();
    if input > 0 && !y.is_empty() {
        let outputs = y.par_chunks_mut(windows.output_plane());
        outputs
            .zip(x.par_chunks(input))
            .for_each(|(y, x)| plane(x, y));
    }
    y
}
