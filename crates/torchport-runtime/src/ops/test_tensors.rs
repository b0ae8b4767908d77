//! Short tensors for tests, and their values.

use candle::{Device, Result, Tensor};

/// One image of one channel and one axis.
pub(super) fn line(values: &[f32]) -> Result<Tensor> {
    Tensor::new(values, &Device::Cpu)?.reshape((1, 1, values.len()))
}

pub(super) fn values(y: Tensor) -> Result<Vec<f32>> {
    y.flatten_all()?.to_vec1()
}
