//! `torch.nn.functional.grid_sample` of images and volumes: values at places between the pixels.

use super::real::{for_real, real_dtype, tensor_like, with_values, Real};
use candle::{bail, Result, Tensor};
use rayon::prelude::*;

/// How values between pixels come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    Bilinear,
    Nearest,
    Bicubic,
}

/// What stands outside of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Border {
    Zeros,
    Replicate,
    Reflect,
}

/// Samples images or volumes `x` of shape (batch, channels, …, width) at the places of `grid`, which has
/// as many axes and a coordinate for each of them last: `x` first, from -1 to 1 over the image.
pub fn grid_sample(
    x: &Tensor,
    grid: &Tensor,
    sampling: Sampling,
    border: Border,
    align_corners: bool,
) -> Result<Tensor> {
    let (dims, grids) = (x.dims(), grid.dims());
    let rank = dims.len().saturating_sub(2);
    let fits = (rank == 2 || rank == 3) && grids.len() == rank + 2;
    if !fits || grids[0] != dims[0] || grids[rank + 1] != rank || dims[2..].contains(&0) {
        bail!("grid_sample: an image of shape {dims:?} with a grid of shape {grids:?}")
    }
    if rank == 3 && sampling == Sampling::Bicubic {
        bail!("grid_sample: volumes cannot be sampled by cubic interpolation")
    }
    let image = Image {
        size: dims[2..].iter().rev().copied().collect(),
        border,
        align_corners,
    };
    let (batch, channels) = (dims[0], dims[1]);
    let pixels: usize = dims[2..].iter().product();
    let places: usize = grids[1..=rank].iter().product();
    for_real!(real_dtype("grid_sample", x.dtype())?, T => {
        let y = with_values::<T, _>(x, |x| with_values::<T, _>(grid, |grid| {
            let mut y = vec![T::ZERO; batch * channels * places];
            if y.is_empty() {
                return Ok(y);
            }
            y.par_chunks_mut(channels * places).enumerate().for_each(|(n, y)| {
                let x = &x[n * channels * pixels..][..channels * pixels];
                for (at, place) in grid[n * places * rank..][..places * rank].chunks(rank).enumerate() {
                    let taps = image.taps(place, sampling);
                    for (plane, y) in x.chunks(pixels).zip(y.chunks_mut(places)) {
                        let sum: f64 = taps.iter().map(|&(i, weight)| plane[i].widen() * weight).sum();
                        y[at] = T::narrow(sum);
                    }
                }
            });
            Ok(y)
        }))?;
        tensor_like(x, y, &[&[batch, channels], &grids[1..=rank]].concat())
    })
}

/// The sizes of an image, the fastest axis first.
struct Image {
    size: Vec<usize>,
    border: Border,
    align_corners: bool,
}

impl Image {
    /// The pixels that a place is made of, with their weights; those outside are left out.
    fn taps<T: Real>(&self, place: &[T], sampling: Sampling) -> Vec<(usize, f64)> {
        let along = |axis: usize, place: T| {
            let place = self.unnormalised(axis, place);
            match sampling {
                Sampling::Nearest => vec![(self.inside(axis, place).round_ties_even(), 1.0)],
                Sampling::Bilinear => {
                    let place = self.inside(axis, place);
                    let below = place.floor();
                    vec![(below, 1.0 - (place - below)), (below + 1.0, place - below)]
                }
                Sampling::Bicubic => {
                    let (below, t) = (place.floor(), place - place.floor());
                    let taps = (-1..3).zip(cubic(t));
                    taps.map(|(i, weight)| (self.inside(axis, below + i as f64), weight))
                        .collect()
                }
            }
        };
        let mut taps = vec![(0, 1.0)];
        for axis in (0..place.len()).rev() {
            let here = along(axis, place[axis]);
            let inside =
                |&(position, weight): &(f64, f64)| Some((self.index(axis, position)?, weight));
            let here = here.iter().filter_map(inside).collect::<Vec<_>>();
            let size = self.size[axis];
            taps = taps
                .iter()
                .flat_map(|&(outer, weight)| {
                    here.iter()
                        .map(move |&(i, share)| (outer * size + i, weight * share))
                })
                .collect();
        }
        taps
    }

    fn index(&self, axis: usize, position: f64) -> Option<usize> {
        (position >= 0.0 && position < self.size[axis] as f64).then_some(position as usize)
    }

    /// From -1 to 1 over the image to pixels, in the precision of the grid.
    fn unnormalised<T: Real>(&self, axis: usize, place: T) -> f64 {
        let size = T::narrow(self.size[axis] as f64);
        let two = T::ONE + T::ONE;
        match self.align_corners {
            true => ((place + T::ONE) / two * (size - T::ONE)).widen(),
            false => (((place + T::ONE) * size - T::ONE) / two).widen(),
        }
    }

    /// The place inside of the image that stands for one outside.
    fn inside(&self, axis: usize, place: f64) -> f64 {
        let last = self.size[axis] as f64 - 1.0;
        match self.border {
            Border::Zeros => place,
            Border::Replicate => clamped(place, last),
            Border::Reflect => {
                let (low, span) = match self.align_corners {
                    true => (0.0, last),
                    false => (-0.5, last + 1.0),
                };
                clamped(reflected(place, low, span), last)
            }
        }
    }
}

/// NaN is taken to the first pixel, as torch does.
fn clamped(place: f64, last: f64) -> f64 {
    if place > 0.0 {
        place.min(last)
    } else {
        0.0
    }
}

fn reflected(place: f64, low: f64, span: f64) -> f64 {
    if span == 0.0 {
        return 0.0;
    }
    let distance = (place - low).abs();
    let (turns, rest) = ((distance / span).floor(), distance % span);
    match turns % 2.0 == 0.0 {
        true => rest + low,
        false => span - rest + low,
    }
}

fn cubic(t: f64) -> [f64; 4] {
    const A: f64 = -0.75;
    let near = |t: f64| ((A + 2.0) * t - (A + 3.0)) * t * t + 1.0;
    let far = |t: f64| ((A * t - 5.0 * A) * t + 8.0 * A) * t - 4.0 * A;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}
