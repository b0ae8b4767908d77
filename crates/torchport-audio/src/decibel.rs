//! Decibels, as `torchaudio.transforms.AmplitudeToDB`.

use crate::sample::sample_dtype;
use candle::{bail, Result, Tensor};
use serde::{Deserialize, Serialize};
use torchport_runtime::ops;

/// What the numbers are: sizes, or their squares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Amplitudes {
    #[default]
    Power,
    Magnitude,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DecibelConfig {
    pub stype: Amplitudes,
    /// What is further below the loudest number is raised to there.
    pub top_db: Option<f64>,
}

#[derive(Debug, Clone)]
pub struct AmplitudeToDb {
    multiplier: f64,
    top_db: Option<f64>,
}

/// Less than this counts as this.
const LEAST: f64 = 1e-10;

impl AmplitudeToDb {
    pub fn new(config: &DecibelConfig) -> Result<Self> {
        if let Some(top) = config.top_db.filter(|top| !top.is_finite() || *top < 0.0) {
            bail!("decibels: top_db is {top}, and may not be below 0")
        }
        Ok(Self {
            multiplier: match config.stype {
                Amplitudes::Power => 10.0,
                Amplitudes::Magnitude => 20.0,
            },
            top_db: config.top_db,
        })
    }

    /// Of the same shape. The loudest number is that of `(channels, bins, frames)`, for each signal of a batch.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        sample_dtype("decibels", x.dtype())?;
        let decibels = ops::log10(&ops::clamp(x, Some(LEAST), None)?)?;
        let decibels = ops::mul_scalar(&decibels, self.multiplier)?;
        let Some(top) = self.top_db else {
            return Ok(decibels);
        };
        if x.rank() < 2 || x.elem_count() == 0 {
            bail!(
                "decibels: top_db needs (…, bins, frames), got {:?}",
                x.dims()
            )
        }
        let dims: Vec<usize> = (x.rank().saturating_sub(3)..x.rank()).collect();
        let loudest = ops::amax(&decibels, &dims, true)?;
        ops::maximum(&decibels, &ops::add_scalar(&loudest, -top)?)
    }
}
