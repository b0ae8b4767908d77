//! Signals at another rate, by windowed sincs, as `torchaudio.transforms.Resample`.

use crate::sample::{for_sample, must_be, sample_dtype, shape, signals, Sample};
use candle::{bail, DType, Device, Result, Tensor};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;
use torchport_runtime::ops::{self, tensor_like, with_values};

#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResampleWindow {
    /// `sinc_interp_hann`.
    #[default]
    Hann,
    /// `sinc_interp_kaiser`; torchaudio's default for `beta` is 14.769656459379492.
    Kaiser { beta: f64 },
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResampleConfig {
    pub orig_freq: usize,
    pub new_freq: usize,
    pub window: ResampleWindow,
    /// How many zeros of the sinc are kept on each side.
    pub lowpass_filter_width: usize,
    /// Where frequencies are cut off, as a part of the highest.
    pub rolloff: f64,
    /// Whether the filters are computed in f64 and rounded once, as torchaudio's `Resample` does if no dtype is given;
    /// otherwise in the dtype of the samples, as its `functional.resample`.
    pub precise: bool,
}

impl Default for ResampleConfig {
    fn default() -> Self {
        Self {
            orig_freq: 16000,
            new_freq: 16000,
            window: ResampleWindow::Hann,
            lowpass_filter_width: 6,
            rolloff: 0.99,
            precise: true,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Resample {
    dtype: DType,
    /// The rates without their common factors.
    orig_freq: usize,
    new_freq: usize,
    /// Samples that a filter reaches on each side.
    reach: usize,
    /// A filter for each of the `new_freq` samples that take the place of `orig_freq`; none if the rates are equal.
    filters: Option<Tensor>,
}

impl Resample {
    pub fn new(config: &ResampleConfig, dtype: DType) -> Result<Self> {
        let dtype = sample_dtype("resample", dtype)?;
        let (orig, new) = (config.orig_freq, config.new_freq);
        if orig == 0 || new == 0 {
            bail!("resample: from {orig} to {new}: rates are above 0")
        }
        if config.lowpass_filter_width == 0 {
            bail!("resample: lowpass_filter_width is 0, and has to be above")
        }
        if !(config.rolloff > 0.0 && config.rolloff <= 1.0) {
            bail!(
                "resample: rolloff is {}: it is above 0 and at most 1",
                config.rolloff
            )
        }
        let common = common_divisor(orig, new);
        let (orig, new) = (orig / common, new / common);
        let base = orig.min(new) as f64 * config.rolloff;
        let width = config.lowpass_filter_width as f64;
        let reach = (width * orig as f64 / base).ceil() as usize;
        let filters = match (orig == new, config.precise) {
            (true, _) => None,
            (_, true) => Some(filters::<f64>(config, orig, new, reach)?.to_dtype(dtype)?),
            (_, false) => Some(for_sample!(dtype, T => filters::<T>(config, orig, new, reach)?)),
        };
        Ok(Self {
            dtype,
            orig_freq: orig,
            new_freq: new,
            reach,
            filters,
        })
    }

    /// `(…, time)` at the new rate.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        must_be("resample", x, self.dtype)?;
        let Some(filters) = &self.filters else {
            return Ok(x.clone());
        };
        let (rows, lead) = signals("resample", x)?;
        let length = rows.dim(1)?;
        let rows = rows.pad_with_zeros(1, self.reach, self.reach + self.orig_freq)?;
        let found = for_sample!(self.dtype, T => filtered::<T>(&rows, filters, self.orig_freq)?);
        // torchaudio rounds this up after it has rounded it to f32.
        let wanted = (self.new_freq as f64 * length as f64 / self.orig_freq as f64) as f32;
        let wanted = (wanted.ceil() as usize).min(found.dim(1)?);
        found.narrow(1, 0, wanted)?.reshape(shape(lead, &[wanted]))
    }
}

/// Every filter at every `step`-th sample, side by side.
fn filtered<T: Sample>(rows: &Tensor, filters: &Tensor, step: usize) -> Result<Tensor> {
    let (batch, length) = rows.dims2()?;
    let (new, _, taps) = filters.dims3()?;
    let count = (length - taps) / step + 1;
    let short = short_filters::<T>(filters)?;
    let sums = with_values::<T, _>(rows, |values| {
        if !values.par_iter().all(|v| v.wide().is_finite()) {
            return Ok(None);
        }
        let mut out = vec![T::of(0.0); batch * count * new];
        let places = out.par_chunks_mut(new).with_min_len(64).enumerate();
        places.for_each(|(place, out)| {
            let start = place / count * length + place % count * step;
            for (out, (first, weights)) in out.iter_mut().zip(&short) {
                *out = sum_of_products(&values[start + first..], weights);
            }
        });
        Ok(Some(out))
    })?;
    match sums {
        Some(sums) => tensor_like(rows, sums, &[batch, count * new]),
        // Infinity times what was taken for zero is not a number, in torch's sums too.
        None => {
            let found = ops::conv(&rows.unsqueeze(1)?, filters, None, &[step], &[0], &[1], 1)?;
            found.transpose(1, 2)?.reshape((batch, count * new))
        }
    }
}

/// Each filter without the taps at its ends that are too small to show: the first that is left, and the weights.
fn short_filters<T: Sample>(filters: &Tensor) -> Result<Vec<(usize, Vec<T>)>> {
    let least = match filters.dtype() {
        DType::F64 => 1e-16,
        _ => 1e-10,
    };
    let rows: Vec<Vec<T>> = filters.squeeze(1)?.to_vec2()?;
    let short = |weights: Vec<T>| {
        let largest = weights.iter().map(|w| w.wide().abs()).fold(0.0, f64::max);
        let counts = |w: &T| w.wide().abs() > least * largest;
        let first = weights.iter().position(counts).unwrap_or(0);
        let end = weights.iter().rposition(counts).map_or(first, |k| k + 1);
        (first, weights[first..end].to_vec())
    };
    Ok(rows.into_iter().map(short).collect())
}

fn sum_of_products<T: Sample>(values: &[T], weights: &[T]) -> T {
    const LANES: usize = 8;
    let values = &values[..weights.len()];
    let mut sums = [T::of(0.0); LANES];
    let (whole, rest) = (weights.chunks_exact(LANES), values.chunks_exact(LANES));
    let last = whole.remainder().iter().zip(rest.remainder());
    let last = last.fold(T::of(0.0), |sum, (&w, &v)| sum + w * v);
    for (weights, values) in whole.zip(rest) {
        for lane in 0..LANES {
            sums[lane] += weights[lane] * values[lane];
        }
    }
    sums.into_iter().fold(last, |sum, lane| sum + lane)
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 {
        a
    } else {
        common_divisor(b, a % b)
    }
}

/// `(new, 1, 2 * reach + orig)`, in the order of torchaudio's steps, as rounding in `T` shows in the samples.
fn filters<T: Sample>(
    config: &ResampleConfig,
    orig: usize,
    new: usize,
    reach: usize,
) -> Result<Tensor> {
    let base = orig.min(new) as f64 * config.rolloff;
    let width = config.lowpass_filter_width as f64;
    let scale = T::of(base / orig as f64);
    let length = 2 * reach + orig;
    let places: Vec<T> = (0..new)
        .flat_map(|phase| (0..length).map(move |tap| (phase, tap)))
        .map(|(phase, tap)| {
            let phase = -(phase as f64);
            // Without a dtype torchaudio divides integers, which gives f32.
            let phase = match config.precise {
                true => T::of((phase as f32 / new as f32) as f64),
                false => T::of(phase) / T::of(new as f64),
            };
            let tap = T::of(tap as f64 - reach as f64) / T::of(orig as f64);
            let place = ((phase + tap) * T::of(base)).wide();
            T::of(place.clamp(-width, width))
        })
        .collect();
    let windows = window::<T>(config.window, &places, width)?;
    let values: Vec<T> = places
        .iter()
        .zip(windows)
        .map(|(&place, window)| {
            let angle = place * T::of(PI);
            let sinc = match angle.wide() {
                0.0 => T::of(1.0),
                wide => T::of(wide.sin()) / angle,
            };
            sinc * (window * scale)
        })
        .collect();
    Tensor::from_vec(values, (new, 1, length), &Device::Cpu)
}

fn window<T: Sample>(window: ResampleWindow, places: &[T], width: f64) -> Result<Vec<T>> {
    match window {
        ResampleWindow::Hann => {
            let cosine = |&place: &T| {
                let angle = place * T::of(PI) / T::of(width) / T::of(2.0);
                let cosine = T::of(angle.wide().cos());
                cosine * cosine
            };
            Ok(places.iter().map(cosine).collect())
        }
        ResampleWindow::Kaiser { beta } => {
            let root = |&place: &T| {
                let part = place / T::of(width);
                let root = T::of((T::of(1.0) - part * part).wide().sqrt());
                (T::of(beta) * root).wide()
            };
            let roots: Vec<f64> = places.iter().map(root).chain([beta]).collect();
            let bessel = ops::i0(&Tensor::new(roots, &Device::Cpu)?)?.to_vec1::<f64>()?;
            let whole = T::of(bessel[places.len()]);
            Ok(bessel[..places.len()]
                .iter()
                .map(|&v| T::of(v) / whole)
                .collect())
        }
    }
}
