//! What the layers promise: torch's weight names and shapes, torch's arithmetic, and that they report themselves.

mod blocks;
mod equations;
mod layers;
mod recurrent;
mod reports;

use candle::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use std::collections::HashMap;

/// Numbers without a pattern that are the same on every machine.
fn noise(seed: u32, shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>() as u32;
    let values: Vec<f32> = (0..count)
        .map(|i| {
            let bits = (i + seed.wrapping_mul(7919)).wrapping_mul(2_654_435_761);
            (bits ^ (bits >> 15)).wrapping_mul(2_246_822_519) as f32 / 2f32.powi(31) - 1.0
        })
        .collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

fn weights(tensors: &[(&str, Tensor)]) -> VarBuilder<'static> {
    let tensors: HashMap<_, _> = tensors
        .iter()
        .map(|(name, tensor)| (name.to_string(), tensor.clone()))
        .collect();
    VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu)
}

fn assert_close(actual: &Tensor, expected: &Tensor) {
    assert_eq!(actual.dims(), expected.dims());
    let values = |tensor: &Tensor| -> Vec<f32> { tensor.flatten_all().unwrap().to_vec1().unwrap() };
    for (index, (actual, expected)) in values(actual).iter().zip(values(expected)).enumerate() {
        let difference = (actual - expected).abs();
        let close = difference <= 2e-6 * expected.abs().max(1.0);
        assert!(close, "element {index}: {actual}, expected {expected}");
    }
}
