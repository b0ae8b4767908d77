//! Cepstra of mel bands, as `torchaudio.transforms.MFCC`.

use crate::decibel::{AmplitudeToDb, DecibelConfig};
use crate::mel::{MelSpectrogram, MelSpectrogramConfig};
use crate::sample::{for_sample, sample_dtype, Sample};
use candle::{bail, DType, Device, Result, Tensor};
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;
use torchport_runtime::ops;

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct MfccConfig {
    pub n_mfcc: usize,
    /// Whether the cosine transform keeps lengths, as torchaudio's `norm="ortho"`.
    pub ortho: bool,
    /// Logarithms of the bands instead of decibels.
    pub log_mels: bool,
    pub mel: MelSpectrogramConfig,
}

impl Default for MfccConfig {
    fn default() -> Self {
        Self {
            n_mfcc: 40,
            ortho: true,
            log_mels: false,
            mel: MelSpectrogramConfig::default(),
        }
    }
}

/// The cosine transform, `(n_mels, n_mfcc)`: `torchaudio.functional.create_dct`.
pub fn dct_matrix(n_mfcc: usize, n_mels: usize, ortho: bool, dtype: DType) -> Result<Tensor> {
    for_sample!(sample_dtype("mfcc", dtype)?, T => {
        let number = |n: usize, k: usize| {
            let place = T::of(PI / n_mels as f64) * (T::of(n as f64) + T::of(0.5));
            let value = T::of((place * T::of(k as f64)).wide().cos());
            match (ortho, k) {
                (false, _) => value * T::of(2.0),
                (true, 0) => value * T::of(0.5f64.sqrt()) * T::of((2.0 / n_mels as f64).sqrt()),
                (true, _) => value * T::of((2.0 / n_mels as f64).sqrt()),
            }
        };
        let numbers = (0..n_mels).flat_map(|n| (0..n_mfcc).map(move |k| number(n, k)));
        Tensor::from_vec(numbers.collect::<Vec<T>>(), (n_mels, n_mfcc), &Device::Cpu)
    })
}

#[derive(Debug, Clone)]
pub struct Mfcc {
    mel: MelSpectrogram,
    /// None for logarithms.
    decibels: Option<AmplitudeToDb>,
    dct: Tensor,
}

impl Mfcc {
    pub fn new(config: &MfccConfig, dtype: DType) -> Result<Self> {
        let n_mels = config.mel.n_mels;
        if config.n_mfcc == 0 || config.n_mfcc > n_mels {
            bail!(
                "mfcc: {} of {n_mels} mel bands: there are from 1 to all",
                config.n_mfcc
            )
        }
        let decibels = DecibelConfig {
            top_db: Some(80.0),
            ..DecibelConfig::default()
        };
        Ok(Self {
            mel: MelSpectrogram::new(&config.mel, dtype)?,
            decibels: match config.log_mels {
                true => None,
                false => Some(AmplitudeToDb::new(&decibels)?),
            },
            dct: dct_matrix(config.n_mfcc, n_mels, config.ortho, dtype)?,
        })
    }

    /// From `(…, time)` to `(…, n_mfcc, frames)`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let bands = self.mel.forward(x)?;
        let bands = match &self.decibels {
            Some(decibels) => decibels.forward(&bands)?,
            None => ops::log(&ops::add_scalar(&bands, 1e-6)?)?,
        };
        let axis = bands.rank() - 2;
        let cepstra = ops::matmul(&bands.transpose(axis, axis + 1)?, &self.dct)?;
        cepstra.transpose(axis, axis + 1)
    }
}
