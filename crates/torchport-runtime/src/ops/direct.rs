//! Convolution with many groups: each has too little work for a matrix product, so every output is
//! summed directly, a line of neighbouring outputs at a time.

use super::conv::Geometry;
use super::kernel::vectorised;
use super::real::Real;
use rayon::prelude::*;

/// Whether this is faster than a matrix product.
pub(super) fn suits(shape: &Geometry) -> bool {
    shape.groups > 1 && (shape.in_channels == 1 || shape.out_channels <= 8)
}

/// All outputs of a convolution; `bias` is empty or has a value per output channel.
pub(super) fn direct<T: Real>(shape: &Geometry, x: &[T], w: &[T], bias: &[T]) -> Vec<T> {
    let (plane, weights) = (shape.output_plane(), shape.in_channels * shape.taps());
    let mut y = vec![T::ZERO; shape.batch * shape.groups * shape.out_channels * plane];
    if y.is_empty() {
        return y;
    }
    let padded = Padded::new(shape);
    y.par_chunks_mut(shape.out_channels * plane)
        .zip(x.par_chunks(shape.in_channels * shape.input_plane()))
        .enumerate()
        .for_each_init(
            || vec![T::ZERO; padded.channel * shape.in_channels],
            |buffer, (image, (y, x))| {
                vectorised(
                    #[inline(always)]
                    || padded.fill(shape, x, buffer),
                );
                let first = image % shape.groups * shape.out_channels;
                for (channel, y) in (first..).zip(y.chunks_mut(plane)) {
                    let w = &w[channel * weights..][..weights];
                    let bias = bias.get(channel).copied().unwrap_or(T::ZERO);
                    padded.convolve(shape, buffer, w, bias, y);
                }
            },
        );
    y
}

/// How the channels of a group are laid out with their padding: each line is split by the
/// remainder of the position modulo the stride, so that neighbouring outputs read neighbouring
/// values.
struct Padded {
    height: usize,
    /// Length of what a line holds for one remainder, with room for a whole tile behind the end.
    part: usize,
    line: usize,
    channel: usize,
    /// Where each channel's taps start relative to their output's line and position.
    taps: Vec<usize>,
}

const WIDEST_TILE: usize = 32;

impl Padded {
    fn new(shape: &Geometry) -> Self {
        let padded = |axis: usize| shape.input[axis] + 2 * shape.padding[axis];
        let (height, stride) = (padded(1), shape.stride[2]);
        let part = padded(2).div_ceil(stride) + WIDEST_TILE;
        let line = part * stride;
        let channel = padded(0) * height * line;
        let mut taps = vec![];
        for c in 0..shape.in_channels {
            for d in (0..shape.kernel[0]).map(|d| d * shape.dilation[0]) {
                for h in (0..shape.kernel[1]).map(|h| h * shape.dilation[1]) {
                    for w in (0..shape.kernel[2]).map(|w| w * shape.dilation[2]) {
                        let column = w % stride * part + w / stride;
                        taps.push(c * channel + (d * height + h) * line + column);
                    }
                }
            }
        }
        Self {
            height,
            part,
            line,
            channel,
            taps,
        }
    }

    #[inline(always)]
    fn fill<T: Real>(&self, shape: &Geometry, x: &[T], buffer: &mut [T]) {
        let [depth, height, width] = shape.input;
        let (stride, padding) = (shape.stride[2], shape.padding[2]);
        for (row, x) in x.chunks_exact(width).enumerate() {
            let (c, d, h) = (row / (depth * height), row / height % depth, row % height);
            let line = (d + shape.padding[0]) * self.height + h + shape.padding[1];
            let out = &mut buffer[c * self.channel + line * self.line..][..self.line];
            for remainder in 0..stride {
                let first = padding.saturating_sub(remainder).div_ceil(stride);
                let x = x
                    .get(first * stride + remainder - padding..)
                    .unwrap_or_default();
                let out = &mut out[remainder * self.part + first..];
                every(stride, x, out);
            }
        }
    }

    fn convolve<T: Real>(&self, shape: &Geometry, buffer: &[T], w: &[T], bias: T, y: &mut [T]) {
        let [_, out_h, out_w] = shape.output;
        for (row, y) in y.chunks_exact_mut(out_w).enumerate() {
            let (d, h) = (row / out_h * shape.stride[0], row % out_h * shape.stride[1]);
            let x = &buffer[(d * self.height + h) * self.line..];
            match out_w {
                0..=8 => convolve_line::<T, 8>(x, &self.taps, w, bias, y),
                9..=16 => convolve_line::<T, 16>(x, &self.taps, w, bias, y),
                _ => convolve_line::<T, WIDEST_TILE>(x, &self.taps, w, bias, y),
            }
        }
    }
}

/// Copies every `stride`-th value.
#[inline(always)]
pub(super) fn every<T: Copy>(stride: usize, x: &[T], out: &mut [T]) {
    match stride {
        1 => {
            let len = x.len().min(out.len());
            out[..len].copy_from_slice(&x[..len]);
        }
        // The most common stride, in a form that the compiler vectorises.
        2 => {
            let pairs = x.chunks_exact(2);
            if let (Some(&last), Some(out)) = (pairs.remainder().first(), out.get_mut(x.len() / 2))
            {
                *out = last;
            }
            out.iter_mut()
                .zip(pairs)
                .for_each(|(out, pair)| *out = pair[0]);
        }
        _ => {
            let firsts = x.iter().step_by(stride);
            out.iter_mut().zip(firsts).for_each(|(out, x)| *out = *x);
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
    // Short runs are added up one by one, which loses less than one long run.
    const RUN: usize = 64;
    vectorised(
        #[inline(always)]
        || {
            for (tile, y) in y.chunks_mut(TILE).enumerate() {
                let x = &x[tile * TILE..];
                let mut totals = [bias; TILE];
                for (taps, w) in taps.chunks(RUN).zip(w.chunks(RUN)) {
                    let mut sums = [T::ZERO; TILE];
                    for (&tap, &w) in taps.iter().zip(w) {
                        let x = &x[tap..tap + TILE];
                        for i in 0..TILE {
                            sums[i] += w * x[i];
                        }
                    }
                    for i in 0..TILE {
                        totals[i] += sums[i];
                    }
                }
                y.copy_from_slice(&totals[..y.len()]);
            }
        },
    )
}
