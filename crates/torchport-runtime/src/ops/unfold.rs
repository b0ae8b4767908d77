//! Convolution as a matrix product: the patches that outputs see are unfolded into the columns of a
//! matrix, a block of outputs at a time.

use super::conv::Geometry;
use super::gemm::{gemm, Mat, Sizes, Target};
use super::real::{Real, SharedMut};
use rayon::prelude::*;

/// About how many unfolded values are worked on at once: what fits the second-level cache.
const BLOCK: usize = 1 << 17;

/// Unfolds the patches of a range of output positions into the columns of a matrix and multiplies
/// the weights with it.
pub(super) fn unfolded<T: Real>(shape: &Geometry, x: &[T], w: &[T], bias: &[T]) -> Vec<T> {
    let (plane, inner) = (shape.output_plane(), shape.in_channels * shape.taps());
    let mut y = start_values(
        shape.batch * shape.groups,
        shape.groups,
        shape.out_channels,
        plane,
        bias,
    );
    let threads = rayon::current_num_threads();
    let images = shape.batch * shape.groups;
    if y.is_empty() {
        return y;
    }
    let widest = (BLOCK / inner.max(1)).max(64).next_multiple_of(16);
    let parts = plane
        .div_ceil(widest)
        .max(threads.div_ceil(images))
        .min(plane.div_ceil(64));
    let width = plane.div_ceil(parts);
    let values = SharedMut::new(&mut y);
    let block = |columns: &mut Vec<T>, index: usize, parallel: bool| {
        let (image, start) = (index / parts, index % parts * width);
        let group = image % shape.groups;
        let width = width.min(plane.saturating_sub(start));
        if width == 0 {
            return;
        }
        let x = &x[image * shape.in_channels * shape.input_plane()..];
        let target = Target {
            values,
            start: image * shape.out_channels * plane + start,
            row_stride: plane,
            accumulate: true,
        };
        let w = Mat::new(&w[group * shape.out_channels * inner..], inner, 1);
        let sizes = Sizes {
            m: shape.out_channels,
            n: width,
            k: inner,
        };
        let patches = if shape.is_pointwise() {
            Mat::new(&x[start..], plane, 1)
        } else {
            columns.resize(inner * width, T::ZERO);
            unfold(shape, x, start, width, columns);
            Mat::new(columns, width, 1)
        };
        // SAFETY: blocks write to disjoint positions of `y`.
        unsafe { gemm(sizes, target, w, patches, parallel) };
    };
    if images * parts >= threads {
        (0..images * parts)
            .into_par_iter()
            .for_each_init(Vec::new, |columns, index| block(columns, index, false));
    } else {
        let mut columns = Vec::new();
        (0..images * parts).for_each(|index| block(&mut columns, index, true));
    }
    y
}

/// The output before any product is added to it: the bias of each channel, or zeros.
pub(super) fn start_values<T: Real>(
    images: usize,
    groups: usize,
    channels: usize,
    plane: usize,
    bias: &[T],
) -> Vec<T> {
    if bias.is_empty() {
        return vec![T::ZERO; images * channels * plane];
    }
    let mut values = Vec::with_capacity(images * channels * plane);
    for channel in 0..images * channels {
        values.resize(values.len() + plane, bias[channel % (groups * channels)]);
    }
    values
}

/// Writes row (channel, tap) of the patches for output positions `start..start + width`.
fn unfold<T: Real>(shape: &Geometry, x: &[T], start: usize, width: usize, columns: &mut [T]) {
    let [_, kernel_h, kernel_w] = shape.kernel;
    let taps = shape.taps();
    for (row, out) in columns.chunks_exact_mut(width).enumerate() {
        let (channel, tap) = (row / taps, row % taps);
        let tap = [
            tap / (kernel_h * kernel_w),
            tap / kernel_w % kernel_h,
            tap % kernel_w,
        ];
        let x = &x[channel * shape.input_plane()..][..shape.input_plane()];
        unfold_row(shape, x, tap, start, out);
    }
}

fn unfold_row<T: Real>(shape: &Geometry, x: &[T], tap: [usize; 3], start: usize, out: &mut [T]) {
    let [_, out_h, out_w] = shape.output;
    let (first, end) = shape.inside(2, tap[2], out_w, shape.input[2]);
    let (stride, shift) = (shape.stride[2], tap[2] * shape.dilation[2]);
    let source = |axis: usize, position: usize| {
        let padded = position * shape.stride[axis] + tap[axis] * shape.dilation[axis];
        padded
            .checked_sub(shape.padding[axis])
            .filter(|&i| i < shape.input[axis])
    };
    let mut written = 0;
    while written < out.len() {
        let position = start + written;
        let (line, from) = (position / out_w, position % out_w);
        let to = out_w.min(from + out.len() - written);
        let out = &mut out[written..written + to - from];
        written += to - from;
        let (Some(d), Some(h)) = (source(0, line / out_h), source(1, line % out_h)) else {
            out.fill(T::ZERO);
            continue;
        };
        let x = &x[(d * shape.input[1] + h) * shape.input[2]..][..shape.input[2]];
        let (lo, hi) = (first.clamp(from, to), end.clamp(from, to));
        out[..lo - from].fill(T::ZERO);
        out[hi - from..].fill(T::ZERO);
        if lo < hi {
            let x = &x[lo * stride + shift - shape.padding[2]..];
            let out = &mut out[lo - from..hi - from];
            if stride == 1 {
                out.copy_from_slice(&x[..out.len()]);
            } else {
                out.iter_mut()
                    .zip(x.iter().step_by(stride))
                    .for_each(|(out, x)| *out = *x);
            }
        }
    }
}
