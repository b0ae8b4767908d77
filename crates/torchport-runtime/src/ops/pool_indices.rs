//! Maximum pooling that also says where each maximum was found, counted within its plane.

use super::kernel::for_dtype;
use super::real::{tensor_like, with_values};
use super::windows::{Window, Windows};
use candle::{Result, Tensor, WithDType};
use rayon::prelude::*;

/// `max_pool` with the indices (i64) of the maxima.
pub fn max_pool_with_indices(
    x: &Tensor,
    kernel: &[usize],
    stride: &[usize],
    padding: &[usize],
    dilation: &[usize],
    ceil_mode: bool,
) -> Result<(Tensor, Tensor)> {
    let windows = Windows::fixed(x, kernel, stride, padding, dilation, ceil_mode)?;
    with_indices(x, &windows)
}

/// `adaptive_max_pool` with the indices (i64) of the maxima.
pub fn adaptive_max_pool_with_indices(x: &Tensor, output: &[usize]) -> Result<(Tensor, Tensor)> {
    with_indices(x, &Windows::adaptive(x, output)?)
}

fn with_indices(x: &Tensor, windows: &Windows) -> Result<(Tensor, Tensor)> {
    for_dtype!("max_pool", x.dtype(), T => {
        let (values, indices) = with_values::<T, _>(x, |x| Ok(maxima(x, windows)))?;
        let indices = Tensor::from_vec(indices, &*windows.shape, x.device())?;
        Ok((tensor_like(x, values, &windows.shape)?, indices))
    })
}

fn maxima<T: WithDType>(x: &[T], windows: &Windows) -> (Vec<T>, Vec<i64>) {
    let count = windows.shape.iter().product();
    let (mut values, mut indices) = (vec![T::zero(); count], vec![0i64; count]);
    let (input, output) = (
        windows.input.iter().product::<usize>(),
        windows.output_plane(),
    );
    if input > 0 && count > 0 {
        let planes = values
            .par_chunks_mut(output)
            .zip(indices.par_chunks_mut(output));
        planes
            .zip(x.par_chunks(input))
            .for_each(|((values, indices), x)| plane(x, windows, values, indices));
    }
    (values, indices)
}

fn plane<T: WithDType>(x: &[T], windows: &Windows, values: &mut [T], indices: &mut [i64]) {
    let [depth, height, width] = &windows.axes;
    let mut places = values.iter_mut().zip(indices);
    for d in depth {
        for h in height {
            for w in width {
                if let Some((value, index)) = places.next() {
                    let at = largest_in(x, windows.input, [d, h, w]);
                    (*value, *index) = (x[at], at as i64);
                }
            }
        }
    }
}

/// The first largest element of a window; NaN counts as the largest, of several the last.
#[allow(clippy::eq_op)] // only NaN differs from itself
fn largest_in<T: WithDType>(x: &[T], input: [usize; 3], [d, h, w]: [&Window; 3]) -> usize {
    let mut best = (d.start * input[1] + h.start) * input[2] + w.start;
    let along = |window: &Window| (window.start..window.end).step_by(window.step);
    for i in along(d) {
        for j in along(h) {
            for k in along(w) {
                let at = (i * input[1] + j) * input[2] + k;
                if x[at] > x[best] || x[at] != x[at] {
                    best = at;
                }
            }
        }
    }
    best
}
