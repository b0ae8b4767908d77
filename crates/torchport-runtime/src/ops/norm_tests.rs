//! Tests of the norms against their definitions in f64.

use super::{batch_norm, group_norm, layer_norm, rms_norm};
use candle::{DType, Device, Result, Tensor};

fn random(shape: &[usize]) -> Result<Tensor> {
    Tensor::randn(3f32, 2.0, shape, &Device::Cpu)
}

fn values(x: &Tensor) -> Result<Vec<f64>> {
    x.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}

fn mean(row: &[f64]) -> f64 {
    row.iter().sum::<f64>() / row.len() as f64
}

fn variance(row: &[f64]) -> f64 {
    let mean = mean(row);
    row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / row.len() as f64
}

fn assert_close(y: &Tensor, expected: impl Iterator<Item = f64>) -> Result<()> {
    for (value, expected) in values(y)?.into_iter().zip(expected) {
        assert!(
            (value - expected).abs() <= 1e-6 * (1.0 + expected.abs()),
            "{value} for {expected}"
        );
    }
    Ok(())
}

#[test]
fn layer_norm_over_two_dims() -> Result<()> {
    let (x, w, b) = (random(&[2, 3, 4, 5])?, random(&[4, 5])?, random(&[4, 5])?);
    let y = layer_norm(&x, 2, Some(&w), Some(&b), 0.5)?;
    let (x, w, b) = (values(&x)?, values(&w)?, values(&b)?);
    let rows = x.chunks(20).flat_map(|row| {
        let scale = (variance(row) + 0.5).sqrt();
        row.iter()
            .zip(&w)
            .zip(&b)
            .map(move |((v, w), b)| (v - mean(row)) / scale * w + b)
    });
    assert_close(&y, rows)
}

#[test]
fn layer_norm_keeps_its_precision_far_from_zero() -> Result<()> {
    let x = (random(&[1, 5000])? + 1e4)?;
    let y = layer_norm(&x, 1, None, None, 1e-5)?;
    let x = values(&x)?;
    let scale = (variance(&x) + 1e-5).sqrt();
    assert_close(&y, x.iter().map(|v| (v - mean(&x)) / scale))
}

#[test]
fn rms_norm_of_a_transposed_view() -> Result<()> {
    let (x, w) = (random(&[7, 3])?, random(&[7])?);
    let y = rms_norm(&x.t()?, 1, Some(&w), 1e-3)?;
    let (x, w) = (values(&x.t()?.contiguous()?)?, values(&w)?);
    let rows = x.chunks(7).flat_map(|row| {
        let scale = (row.iter().map(|v| v * v).sum::<f64>() / 7.0 + 1e-3).sqrt();
        row.iter().zip(&w).map(move |(v, w)| v / scale * w)
    });
    assert_close(&y, rows)
}

#[test]
fn group_norm_scales_by_channel() -> Result<()> {
    let (x, w, b) = (random(&[2, 6, 5])?, random(&[6])?, random(&[6])?);
    let y = group_norm(&x, 3, Some(&w), Some(&b), 1e-5)?;
    let (x, w, b) = (values(&x)?, values(&w)?, values(&b)?);
    let rows = x.chunks(10).enumerate().flat_map(|(i, row)| {
        let (w, b) = (&w, &b);
        let scale = (variance(row) + 1e-5).sqrt();
        row.iter().enumerate().map(move |(j, v)| {
            let channel = i % 3 * 2 + j / 5;
            (v - mean(row)) / scale * w[channel] + b[channel]
        })
    });
    assert_close(&y, rows)
}

#[test]
fn batch_norm_of_any_rank() -> Result<()> {
    let (m, v, w) = (random(&[4])?, random(&[4])?.sqr()?, random(&[4])?);
    for shape in [&[3, 4][..], &[3, 4, 5], &[2, 4, 3, 2, 2]] {
        let x = random(shape)?;
        let y = batch_norm(&x, &m, &v, Some(&w), None, 0.1)?;
        let plane: usize = shape[2..].iter().product();
        let (m, v, w) = (values(&m)?, values(&v)?, values(&w)?);
        let x = values(&x)?.into_iter().enumerate();
        assert_close(
            &y,
            x.map(|(i, x)| {
                let c = i / plane % 4;
                (x - m[c]) / (v[c] + 0.1).sqrt() * w[c]
            }),
        )?;
    }
    Ok(())
}

#[test]
fn empty_inputs_stay_empty_and_wrong_parameters_fail() -> Result<()> {
    let none = Tensor::zeros((0, 4, 3), DType::F32, &Device::Cpu)?;
    assert_eq!(layer_norm(&none, 1, None, None, 1e-5)?.dims(), [0, 4, 3]);
    assert_eq!(group_norm(&none, 2, None, None, 1e-5)?.dims(), [0, 4, 3]);
    assert!(layer_norm(&random(&[2, 3])?, 1, Some(&random(&[4])?), None, 1e-5).is_err());
    assert!(group_norm(&random(&[2, 3, 4])?, 2, None, None, 1e-5).is_err());
    Ok(())
}
