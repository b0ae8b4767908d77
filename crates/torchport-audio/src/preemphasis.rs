//! High frequencies made louder, as `torchaudio.transforms.Preemphasis`.

use crate::sample::sample_dtype;
use candle::{bail, Result, Tensor};
use torchport_runtime::ops;

/// Takes from each sample a part of the one before it.
#[derive(Debug, Clone)]
pub struct Preemphasis {
    coefficient: f64,
}

impl Preemphasis {
    /// torchaudio's default is 0.97.
    pub fn new(coefficient: f64) -> Result<Self> {
        if !coefficient.is_finite() {
            bail!("preemphasis: the coefficient is {coefficient}")
        }
        Ok(Self { coefficient })
    }

    /// `(…, time)`, of the same shape. The first sample stays.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        sample_dtype("preemphasis", x.dtype())?;
        let Some(axis) = x.rank().checked_sub(1) else {
            bail!("preemphasis: a single number is no signal, whose last dimension is time")
        };
        let length = x.dim(axis)?;
        if length < 2 {
            return Ok(x.clone());
        }
        let before = ops::mul_scalar(&x.narrow(axis, 0, length - 1)?, self.coefficient)?;
        let others = ops::sub(&x.narrow(axis, 1, length - 1)?, &before)?;
        Tensor::cat(&[x.narrow(axis, 0, 1)?, others], axis)
    }
}
