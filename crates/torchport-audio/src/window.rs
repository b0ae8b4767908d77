//! The windows by which frames are multiplied.

use candle::{bail, Device, Result, Tensor};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;
use torchport_runtime::ops;

/// A periodic window, as torch's functions of these names make it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    #[default]
    Hann,
    Hamming,
    Blackman,
    Bartlett,
    Kaiser {
        beta: f64,
    },
    /// Ones: what `torch.stft` does without a window.
    Rectangular,
    Values(Vec<f64>),
}

impl Window {
    /// The window of `length` numbers.
    pub fn values(&self, length: usize) -> Result<Vec<f64>> {
        if let Self::Values(values) = self {
            if values.len() != length {
                bail!(
                    "window: it has {} numbers, and win_length is {length}",
                    values.len()
                )
            }
            return Ok(values.clone());
        }
        if length == 1 {
            return Ok(vec![1.0]);
        }
        if let Self::Kaiser { beta } = self {
            return kaiser(*beta, length);
        }
        let place = |k: usize| k as f64 / length as f64;
        let number = |k| match self {
            Self::Hann => 0.5 - 0.5 * (TAU * place(k)).cos(),
            Self::Hamming => 0.54 - 0.46 * (TAU * place(k)).cos(),
            Self::Blackman => {
                0.42 - 0.5 * (TAU * place(k)).cos() + 0.08 * (2.0 * TAU * place(k)).cos()
            }
            Self::Bartlett => 1.0 - (2.0 * place(k) - 1.0).abs(),
            _ => 1.0,
        };
        Ok((0..length).map(number).collect())
    }
}

fn kaiser(beta: f64, length: usize) -> Result<Vec<f64>> {
    let half = length as f64 / 2.0;
    let root = |k: usize| beta * (1.0 - ((k as f64 - half) / half).powi(2)).max(0.0).sqrt();
    let roots: Vec<f64> = (0..length).map(root).chain([beta]).collect();
    let bessel = ops::i0(&Tensor::new(roots, &Device::Cpu)?)?.to_vec1::<f64>()?;
    Ok(bessel[..length]
        .iter()
        .map(|v| v / bessel[length])
        .collect())
}
