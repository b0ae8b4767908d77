//! Convolution as a matrix product: weights times patches. The patches, what the outputs see of
//! the input, are never all in memory: they are unfolded block by block where the product asks.

use super::conv::Geometry;
use super::direct::every;
use super::gemm::{multiply, Sizes};
use super::kernel::vectorised;
use super::matrix::{Columns, Mat, Target};
use super::real::{Real, SharedMut};
use rayon::prelude::*;
use std::ops::Range;

/// All outputs of a convolution; `bias` is empty or has a value per output channel.
pub(super) fn unfolded<T: Real>(shape: &Geometry, x: &[T], w: &[T], bias: &[T]) -> Vec<T> {
    let (plane, input_plane) = (shape.output_plane(), shape.input_plane());
    let sizes = Sizes {
        m: shape.out_channels,
        n: plane,
        k: shape.in_channels * shape.taps(),
    };
    let images = shape.batch * shape.groups;
    let mut y = start_values(images, shape.groups, shape.out_channels, plane, bias);
    let values = SharedMut::new(&mut y);
    let image = |image: usize, parallel: bool| {
        let x = &x[image * shape.in_channels * input_plane..];
        let w = &w[image % shape.groups * sizes.m * sizes.k..];
        let (w, target) = (
            Mat::new(w, sizes.k, 1),
            Target::new(values, image * sizes.m * plane, plane, true),
        );
        // SAFETY: every image has outputs of its own.
        unsafe {
            match shape.is_pointwise() {
                true => multiply(sizes, target, w, &Mat::new(x, plane, 1), parallel),
                false => multiply(sizes, target, w, &Patches::new(shape, x), parallel),
            }
        }
    };
    if images >= rayon::current_num_threads() {
        (0..images)
            .into_par_iter()
            .for_each(|index| image(index, false));
    } else {
        (0..images).for_each(|index| image(index, true));
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

/// A matrix with a column per output position and a row per channel and tap.
struct Patches<'a, T> {
    shape: &'a Geometry,
    x: &'a [T],
    /// For each tap along the last axis, the outputs for which it lies inside the input.
    inside: Vec<Range<usize>>,
}

/// Outputs of one line that lie in a block of columns.
struct Segment {
    depth: usize,
    height: usize,
    positions: Range<usize>,
}

impl<'a, T: Real> Patches<'a, T> {
    fn new(shape: &'a Geometry, x: &'a [T]) -> Self {
        let inside = |tap| shape.inside(2, tap, shape.output[2], shape.input[2]);
        let inside = (0..shape.kernel[2]).map(inside).collect();
        Self { shape, x, inside }
    }

    fn segments(&self, col: usize, width: usize) -> Vec<Segment> {
        let [_, out_h, out_w] = self.shape.output;
        let mut segments = vec![];
        let (mut start, end) = (col, col + width);
        while start < end {
            let (line, first) = (start / out_w, start % out_w);
            let last = out_w.min(first + end - start);
            let (depth, height) = (line / out_h, line % out_h);
            segments.push(Segment {
                depth,
                height,
                positions: first..last,
            });
            start += last - first;
        }
        segments
    }

    /// What the outputs of a segment see at one tap.
    #[inline(always)]
    fn copy_segment(&self, channel: usize, tap: [usize; 3], segment: &Segment, out: &mut [T]) {
        let shape = self.shape;
        let source = |axis: usize, position: usize| {
            let padded = position * shape.stride[axis] + tap[axis] * shape.dilation[axis];
            let source = padded.checked_sub(shape.padding[axis]);
            source.filter(|&source| source < shape.input[axis])
        };
        let (Some(d), Some(h)) = (source(0, segment.depth), source(1, segment.height)) else {
            return out.fill(T::ZERO);
        };
        let Range { start, end } = segment.positions;
        let inside = &self.inside[tap[2]];
        let (low, high) = (inside.start.clamp(start, end), inside.end.clamp(start, end));
        out[..low - start].fill(T::ZERO);
        out[high - start..].fill(T::ZERO);
        if low == high {
            return;
        }
        let [depth, height, width] = shape.input;
        let line = ((channel * depth + d) * height + h) * width;
        let stride = shape.stride[2];
        let first = low * stride + tap[2] * shape.dilation[2] - shape.padding[2];
        let x = &self.x[line + first..line + width];
        let out = &mut out[low - start..high - start];
        every(stride, x, out);
    }
}

impl<T: Real> Columns<T> for Patches<'_, T> {
    fn copy(&self, rows: Range<usize>, col: usize, width: usize, stride: usize, out: &mut [T]) {
        let [kernel_d, kernel_h, kernel_w] = self.shape.kernel;
        let segments = self.segments(col, width);
        let taps = kernel_d * kernel_h * kernel_w;
        let (mut channel, tap) = (rows.start / taps, rows.start % taps);
        let mut tap = [
            tap / (kernel_h * kernel_w),
            tap / kernel_w % kernel_h,
            tap % kernel_w,
        ];
        vectorised(
            #[inline(always)]
            || {
                for out in out.chunks_mut(stride).take(rows.len()) {
                    let mut start = 0;
                    for segment in &segments {
                        let end = start + segment.positions.len();
                        self.copy_segment(channel, tap, segment, &mut out[start..end]);
                        start = end;
                    }
                    // The next tap: the last axis first, then the ones before it, then the next channel.
                    tap[2] += 1;
                    for axis in [2, 1, 0] {
                        if tap[axis] < self.shape.kernel[axis] {
                            break;
                        }
                        tap[axis] = 0;
                        match axis {
                            0 => channel += 1,
                            _ => tap[axis - 1] += 1,
                        }
                    }
                }
            },
        );
    }
}
