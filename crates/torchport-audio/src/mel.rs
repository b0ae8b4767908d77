//! Spectrograms in mel bands, as torchaudio's `MelScale` and `MelSpectrogram`.

use crate::sample::{for_sample, must_be, sample_dtype, shape, Sample};
use crate::spectrogram::{Spectrogram, SpectrogramConfig};
use candle::{bail, DType, Device, Result, Tensor};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use torchport_runtime::ops::{tensor_like, with_values};

/// How pitch follows from frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MelFormula {
    #[default]
    Htk,
    Slaney,
}

/// What the filters are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MelNorm {
    #[default]
    No,
    /// Half the width of the band, so that all filters have the same area.
    Slaney,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct MelConfig {
    pub n_mels: usize,
    pub sample_rate: usize,
    pub f_min: f64,
    /// Half of `sample_rate`, rounded down, if there is none.
    pub f_max: Option<f64>,
    /// The bins of the spectrograms.
    pub n_stft: usize,
    pub norm: MelNorm,
    pub mel_scale: MelFormula,
}

impl Default for MelConfig {
    fn default() -> Self {
        Self {
            n_mels: 128,
            sample_rate: 16000,
            f_min: 0.0,
            f_max: None,
            n_stft: 201,
            norm: MelNorm::No,
            mel_scale: MelFormula::Htk,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct MelSpectrogramConfig {
    pub spectrogram: SpectrogramConfig,
    pub n_mels: usize,
    pub sample_rate: usize,
    pub f_min: f64,
    /// Half of `sample_rate`, rounded down, if there is none.
    pub f_max: Option<f64>,
    pub norm: MelNorm,
    pub mel_scale: MelFormula,
}

impl Default for MelSpectrogramConfig {
    fn default() -> Self {
        let mel = MelConfig::default();
        Self {
            spectrogram: SpectrogramConfig::default(),
            n_mels: mel.n_mels,
            sample_rate: mel.sample_rate,
            f_min: mel.f_min,
            f_max: mel.f_max,
            norm: mel.norm,
            mel_scale: mel.mel_scale,
        }
    }
}

impl MelFormula {
    fn pitch(self, frequency: f64) -> f64 {
        match self {
            Self::Htk => 2595.0 * (1.0 + frequency / 700.0).log10(),
            Self::Slaney if frequency >= BREAK => {
                BREAK / STEP + (frequency / BREAK).ln() / log_step()
            }
            Self::Slaney => frequency / STEP,
        }
    }

    /// In the arithmetic of the samples, as torchaudio does it: the differences of these numbers are small.
    fn frequency<T: Sample>(self, pitch: T) -> T {
        match self {
            Self::Htk => {
                let power = T::of(10f64.powf((pitch / T::of(2595.0)).wide()));
                T::of(700.0) * (power - T::of(1.0))
            }
            Self::Slaney if pitch.wide() >= T::of(BREAK / STEP).wide() => {
                let above = T::of(log_step()) * (pitch - T::of(BREAK / STEP));
                T::of(BREAK) * T::of(above.wide().exp())
            }
            Self::Slaney => T::of(STEP) * pitch,
        }
    }
}

/// Where Slaney's formula stops to be linear, and the hertz of one mel below it.
const BREAK: f64 = 1000.0;
const STEP: f64 = 200.0 / 3.0;

fn log_step() -> f64 {
    6.4f64.ln() / 27.0
}

/// The weight of each bin in each band, `(n_stft, n_mels)`: `torchaudio.functional.melscale_fbanks`.
pub fn mel_filters(config: &MelConfig, dtype: DType) -> Result<Tensor> {
    let MelConfig { n_stft, n_mels, .. } = *config;
    for_sample!(sample_dtype("mel", dtype)?, T => {
        Tensor::from_vec(filters::<T>(config)?, (n_stft, n_mels), &Device::Cpu)
    })
}

fn filters<T: Sample>(config: &MelConfig) -> Result<Vec<T>> {
    let nyquist = (config.sample_rate / 2) as f64;
    let (low, high) = (config.f_min, config.f_max.unwrap_or(nyquist));
    if config.n_mels == 0 || config.n_stft < 2 {
        bail!(
            "mel: {} bands of {} bins: there is at least one of two",
            config.n_mels,
            config.n_stft
        )
    }
    if !(low < high && high.is_finite() && low > -700.0) {
        bail!("mel: f_min {low} has to be below f_max {high}, and both above -700")
    }
    let formula = config.mel_scale;
    let bins = line::<T>(0.0, nyquist, config.n_stft);
    let pitches = line::<T>(formula.pitch(low), formula.pitch(high), config.n_mels + 2);
    let points: Vec<T> = pitches.into_iter().map(|p| formula.frequency(p)).collect();
    let weight = |bin: T, p: &[T]| {
        let rising = (bin - p[0]) / (p[1] - p[0]);
        let falling = (p[2] - bin) / (p[2] - p[1]);
        let least = if rising < falling { rising } else { falling };
        let weight = if least > T::of(0.0) {
            least
        } else {
            T::of(0.0)
        };
        match config.norm {
            MelNorm::No => weight,
            MelNorm::Slaney => weight * (T::of(2.0) / (p[2] - p[0])),
        }
    };
    let weights = bins
        .iter()
        .flat_map(|&bin| points.windows(3).map(move |p| (bin, p)));
    Ok(weights.map(|(bin, p)| weight(bin, p)).collect())
}

/// `torch.linspace`.
fn line<T: Sample>(start: f64, end: f64, count: usize) -> Vec<T> {
    let (start, end) = (T::of(start), T::of(end));
    let step = (end - start) / T::of((count - 1) as f64);
    let number = |i: usize| match i < count / 2 {
        true => start + step * T::of(i as f64),
        false => end - step * T::of((count - 1 - i) as f64),
    };
    (0..count).map(number).collect()
}

/// From the bins of a spectrogram to mel bands.
#[derive(Debug, Clone)]
pub struct MelScale {
    /// `(n_stft, n_mels)`.
    filters: Tensor,
}

impl MelScale {
    pub fn new(config: &MelConfig, dtype: DType) -> Result<Self> {
        Ok(Self {
            filters: mel_filters(config, dtype)?,
        })
    }

    /// From `(…, n_stft, frames)` to `(…, n_mels, frames)`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        must_be("mel", x, self.filters.dtype())?;
        let (n_stft, n_mels) = self.filters.dims2()?;
        let [lead @ .., bins, frames] = x.dims() else {
            bail!("mel: needs (…, n_stft, frames), got {:?}", x.dims())
        };
        if *bins != n_stft {
            bail!("mel: it was made for {n_stft} bins, and there are {bins}")
        }
        let axis = lead.len();
        let turned = x.transpose(axis, axis + 1)?;
        for_sample!(x.dtype(), T => {
            let bands = Bands::<T>::new(&self.filters)?;
            let out = with_values::<T, _>(&turned, |sizes| {
                let mut out = vec![T::of(0.0); sizes.len() / n_stft * n_mels];
                let rows = out.par_chunks_mut(n_mels).zip(sizes.par_chunks(n_stft));
                rows.for_each(|(out, sizes)| bands.write(sizes, out));
                Ok(out)
            })?;
            tensor_like(x, out, &shape(lead, &[*frames, n_mels]))?.transpose(axis, axis + 1)
        })
    }
}

/// The filters by band: the bins that are in it, and their weights.
struct Bands<T> {
    bins: usize,
    bands: Vec<(Range<usize>, Vec<T>)>,
}

impl<T: Sample> Bands<T> {
    fn new(filters: &Tensor) -> Result<Self> {
        let columns: Vec<Vec<T>> = filters.t()?.to_vec2()?;
        let band = |weights: Vec<T>| {
            let counts = |w: &T| *w != T::of(0.0);
            let first = weights.iter().position(counts).unwrap_or(0);
            let end = weights.iter().rposition(counts).map_or(first, |k| k + 1);
            (first..end, weights)
        };
        Ok(Self {
            bins: filters.dim(0)?,
            bands: columns.into_iter().map(band).collect(),
        })
    }

    fn write(&self, sizes: &[T], out: &mut [T]) {
        // Infinity times the zero outside of a band is not a number, in torch's product of matrices too.
        let total = sizes.iter().fold(T::of(0.0), |sum, &v| sum + v);
        let whole = !total.wide().is_finite();
        for (out, (range, weights)) in out.iter_mut().zip(&self.bands) {
            let range = if whole { 0..self.bins } else { range.clone() };
            let pairs = sizes[range.clone()].iter().zip(&weights[range]);
            *out = pairs.fold(T::of(0.0), |sum, (&v, &w)| sum + v * w);
        }
    }
}

#[derive(Debug, Clone)]
pub struct MelSpectrogram {
    spectrogram: Spectrogram,
    power: f64,
    scale: MelScale,
}

impl MelSpectrogram {
    pub fn new(config: &MelSpectrogramConfig, dtype: DType) -> Result<Self> {
        let spectrogram = Spectrogram::new(&config.spectrogram, dtype)?;
        let Some(power) = spectrogram.power() else {
            bail!("mel: bands are made of sizes, so a power is needed")
        };
        let scale = MelConfig {
            n_mels: config.n_mels,
            sample_rate: config.sample_rate,
            f_min: config.f_min,
            f_max: config.f_max,
            n_stft: spectrogram.bins(),
            norm: config.norm,
            mel_scale: config.mel_scale,
        };
        Ok(Self {
            scale: MelScale::new(&scale, dtype)?,
            spectrogram,
            power,
        })
    }

    /// From `(…, time)` to `(…, n_mels, frames)`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let filters = &self.scale.filters;
        for_sample!(self.spectrogram.dtype(), T => {
            let bands = Bands::<T>::new(filters)?;
            let fold = |sizes: &[T], out: &mut [T]| bands.write(sizes, out);
            self.spectrogram.folded(x, filters.dim(1)?, self.power, fold)
        })
    }
}
