//! Convolution where each group has a single input channel: too little work per group for a matrix
//! product, so each output is summed directly.

use super::conv::Geometry;
use super::kernel::vectorised;
use super::real::Real;
use rayon::prelude::*;

/// All outputs of a depthwise convolution; `bias` is empty or has a value per output channel.
pub(super) fn depthwise<T: Real>(shape: &Geometry, x: &[T], w: &[T], bias: &[T]) -> Vec<T> {
    let (plane, taps) = (shape.output_plane(), shape.taps());
    let mut y = vec![T::ZERO; shape.batch * shape.groups * shape.out_channels * plane];
    if y.is_empty() {
        return y;
    }
    let padded = Padded::new(shape);
    y.par_chunks_mut(shape.out_channels * plane)
        .zip(x.par_chunks(shape.input_plane()))
        .enumerate()
        .for_each_init(
            || vec![T::ZERO; padded.len()],
            |buffer, (image, (y, x))| {
                padded.fill(shape, x, buffer);
                let first = image % shape.groups * shape.out_channels;
                for (c, y) in y.chunks_mut(plane).enumerate() {
                    let weights = &w[(first + c) * taps..][..taps];
                    let bias = bias.get(first + c).copied().unwrap_or(T::ZERO);
                    padded.convolve(shape, buffer, weights, bias, y);
                }
            },
        );
    y
}

/// How one channel is laid out with its padding: each line is split by the remainder of the
/// position modulo the stride, so that neighbouring outputs read neighbouring values.
struct Padded {
    lines: [usize; 2],
    /// Length of the part of a line that belongs to one remainder, with room for a whole tile.
    part: usize,
    line: usize,
    /// Where each tap starts relative to its output's line and position.
    taps: Vec<usize>,
}

const WIDEST_TILE: usize = 32;

impl Padded {
    fn new(shape: &Geometry) -> Self {
        let padded = |axis: usize| shape.input[axis] + 2 * shape.padding[axis];
        let lines = [padded(0), padded(1)];
        let part = padded(2).div_ceil(shape.stride[2]) + WIDEST_TILE;
        let line = part * shape.stride[2];
        let mut taps = Vec::with_capacity(shape.taps());
        for d in 0..shape.kernel[0] {
            for h in 0..shape.kernel[1] {
                for w in 0..shape.kernel[2] {
                    let [d, h, w] = [
                        d * shape.dilation[0],
                        h * shape.dilation[1],
                        w * shape.dilation[2],
                    ];
                    let (quotient, remainder) = (w / shape.stride[2], w % shape.stride[2]);
                    taps.push((d * lines[1] + h) * line + remainder * part + quotient);
                }
            }
        }
        Self {
            lines,
            part,
            line,
            taps,
        }
    }

    fn len(&self) -> usize {
        self.lines[0] * self.lines[1] * self.line
    }

    fn fill<T: Real>(&self, shape: &Geometry, x: &[T], buffer: &mut [T]) {
        let [_, input_h, input_w] = shape.input;
        let (stride, line) = (shape.stride[2], self.line);
        for (row, x) in x.chunks_exact(input_w).enumerate() {
            let (d, h) = (
                row / input_h + shape.padding[0],
                row % input_h + shape.padding[1],
            );
            let out = &mut buffer[(d * self.lines[1] + h) * line..][..line];
            if stride == 1 {
                out[shape.padding[2]..][..input_w].copy_from_slice(x);
                continue;
            }
            for (position, &x) in (shape.padding[2]..).zip(x) {
                out[position % stride * self.part + position / stride] = x;
            }
        }
    }

    fn convolve<T: Real>(&self, shape: &Geometry, buffer: &[T], w: &[T], bias: T, y: &mut [T]) {
        let [_, out_h, out_w] = shape.output;
        for (row, y) in y.chunks_exact_mut(out_w).enumerate() {
            let (d, h) = (row / out_h * shape.stride[0], row % out_h * shape.stride[1]);
            let x = &buffer[(d * self.lines[1] + h) * self.line..];
            match out_w {
                0..=8 => convolve_line::<T, 8>(x, &self.taps, w, bias, y),
                9..=16 => convolve_line::<T, 16>(x, &self.taps, w, bias, y),
                _ => convolve_line::<T, WIDEST_TILE>(x, &self.taps, w, bias, y),
            }
        }
    }
}

fn convolve_line<T: Real, const TILE: usize>(
    x: &[T],
    taps: &[usize],
    w: &[T],
    bias: T,
    y: &mut [T],
) {
    vectorised(
        #[inline(always)]
        || {
            for (tile, y) in y.chunks_mut(TILE).enumerate() {
                let x = &x[tile * TILE..];
                let mut sums = [T::ZERO; TILE];
                for (&tap, &w) in taps.iter().zip(w) {
                    let x: &[T; TILE] = x[tap..tap + TILE].try_into().expect("a tile is in bounds");
                    for i in 0..TILE {
                        sums[i] += w * x[i];
                    }
                }
                for (y, sum) in y.iter_mut().zip(sums) {
                    *y = sum + bias;
                }
            }
        },
    )
}
