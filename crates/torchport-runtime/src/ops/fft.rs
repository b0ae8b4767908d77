//! Fourier transforms of any length, along any dimensions. Computed in f64 for all dtypes.

use super::real::{for_real, real_dtype, tensor_like, with_values, Real};
use super::{complex, contiguous, mul_scalar, real};
use crate::fourier::{self, Complex};
use candle::{bail, Error, Result, Tensor};
use rayon::prelude::*;

/// What a transform is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    None,
    RootOfLength,
    Length,
}

impl Scale {
    fn factor(self, length: usize) -> f64 {
        match self {
            Self::None => 1.0,
            Self::RootOfLength => 1.0 / (length as f64).sqrt(),
            Self::Length => 1.0 / length as f64,
        }
    }
}

/// The frequencies of a transform of `length` numbers that are `spacing` apart; with `onesided` without those
/// below zero.
pub fn fft_frequencies(
    length: usize,
    spacing: f64,
    onesided: bool,
    dtype: candle::DType,
    device: &candle::Device,
) -> Result<Tensor> {
    let half = if onesided {
        length / 2 + 1
    } else {
        length.div_ceil(2)
    };
    let below = if onesided { 0 } else { length - half };
    let numbers = (0..half as i64).chain(-(below as i64)..0);
    let numbers = numbers.map(|k| k as f64).collect::<Vec<_>>();
    let count = numbers.len();
    let numbers = super::to_dtype(&Tensor::from_vec(numbers, count, device)?, dtype)?;
    mul_scalar(&numbers, 1.0 / (length as f64 * spacing))
}

/// The transform of complex numbers along `dims`.
pub fn fft(z: &Tensor, dims: &[usize], scale: Scale, forward: bool) -> Result<Tensor> {
    let length = dims.iter().map(|&d| z.dims()[d]).product();
    let mut z = z.clone();
    for &dim in dims {
        z = along(&z, dim, forward)?;
    }
    mul_scalar(&z, scale.factor(length))
}

/// The transform of real numbers along `dims`; with `onesided` without the half along the last of
/// `dims` that mirrors the other.
pub fn fft_of_real(x: &Tensor, dims: &[usize], scale: Scale, onesided: bool) -> Result<Tensor> {
    let Some((&last, others)) = dims.split_last() else {
        return complex(x, &x.zeros_like()?);
    };
    let length = not_empty(x, last)?;
    let (plan, half) = (fourier::of_real::<f64>(length), length / 2 + 1);
    let kept = if onesided { half } else { length };
    let mut z = rows::<f64, Complex<f64>>(x, last, kept, |row, out| {
        plan.process(row, &mut out[..half]).map_err(Error::wrap)?;
        (half..kept).for_each(|k| out[k] = out[length - k].conj());
        Ok(())
    })?;
    for &dim in others {
        z = along(&z, dim, true)?;
    }
    let length = dims.iter().map(|&d| x.dims()[d]).product();
    mul_scalar(&z, scale.factor(length))
}

/// The real numbers whose transform `z` is, of which the last of `dims` has the first half; it has
/// `length` numbers afterwards.
pub fn fft_to_real(z: &Tensor, dims: &[usize], scale: Scale, length: usize) -> Result<Tensor> {
    let Some((&last, others)) = dims.split_last() else {
        return real(z);
    };
    let mut z = z.clone();
    for &dim in others {
        z = along(&z, dim, false)?;
    }
    let known = not_empty(&z, last)?;
    if length == 0 {
        bail!("no transform of no numbers: {:?}", z.dims())
    }
    let plan = fourier::to_real::<f64>(length);
    let x = rows::<Complex<f64>, f64>(&z, last, length, |row, out| {
        let mut half = vec![Complex::default(); length / 2 + 1];
        let known = known.min(half.len());
        half[..known].copy_from_slice(&row[..known]);
        fourier::make_hermitian(&mut half, length);
        plan.process(&mut half, out).map_err(Error::wrap)
    })?;
    let total = others.iter().map(|&d| z.dims()[d]).product::<usize>() * length;
    mul_scalar(&x, scale.factor(total))
}

fn along(z: &Tensor, dim: usize, forward: bool) -> Result<Tensor> {
    let length = not_empty(z, dim)?;
    let plan = fourier::of_complex::<f64>(length, forward);
    rows::<Complex<f64>, Complex<f64>>(z, dim, length, |row, out| {
        out.copy_from_slice(row);
        plan.process(out);
        Ok(())
    })
}

fn not_empty(x: &Tensor, dim: usize) -> Result<usize> {
    match x.dim(dim)? {
        0 => bail!("no transform of no numbers: {:?}", x.dims()),
        length => Ok(length),
    }
}

/// A number as tensors hold it: real, or complex as a pair in the last dimension.
trait Number: Copy + Default + Send + Sync {
    const PARTS: usize;
    fn read<T: Real>(parts: &[T]) -> Self;
    fn write<T: Real>(self, parts: &mut [T]);
}

impl Number for f64 {
    const PARTS: usize = 1;

    fn read<T: Real>(parts: &[T]) -> Self {
        parts[0].widen()
    }

    fn write<T: Real>(self, parts: &mut [T]) {
        parts[0] = T::narrow(self);
    }
}

impl Number for Complex<f64> {
    const PARTS: usize = 2;

    fn read<T: Real>(parts: &[T]) -> Self {
        Self::new(parts[0].widen(), parts[1].widen())
    }

    fn write<T: Real>(self, parts: &mut [T]) {
        (parts[0], parts[1]) = (T::narrow(self.re), T::narrow(self.im));
    }
}

/// Numbers that one task reads, so that rows that are short are taken together.
const BLOCK: usize = 8192;

/// `f` of each row of numbers along `dim`, which gives a row of `length` of them.
fn rows<I: Number, O: Number>(
    x: &Tensor,
    dim: usize,
    length: usize,
    f: impl Fn(&mut [I], &mut [O]) -> Result<()> + Sync,
) -> Result<Tensor> {
    let axes = x.rank() + 1 - I::PARTS;
    if dim >= axes || (I::PARTS == 2 && x.dims().last() != Some(&2)) {
        bail!("no transform along dimension {dim} of {:?}", x.dims())
    }
    let before = x.dim(dim)?;
    let turned = contiguous(&x.transpose(dim, axes - 1)?)?;
    let mut shape = turned.dims()[..axes].to_vec();
    shape[axes - 1] = length;
    if O::PARTS == 2 {
        shape.push(2);
    }
    let block = (BLOCK / before).max(1);
    for_real!(real_dtype("fft", x.dtype())?, T => {
        let out = with_values::<T, _>(&turned, |values| {
            let mut out = vec![T::ZERO; shape.iter().product()];
            let blocks = out.par_chunks_mut(block * length * O::PARTS);
            blocks.zip(values.par_chunks(block * before * I::PARTS)).try_for_each(|(out, values)| {
                let (mut row, mut done) = (vec![I::default(); before], vec![O::default(); length]);
                let out = out.chunks_mut(length * O::PARTS);
                for (out, values) in out.zip(values.chunks(before * I::PARTS)) {
                    let parts = values.chunks_exact(I::PARTS);
                    row.iter_mut().zip(parts).for_each(|(v, parts)| *v = I::read(parts));
                    f(&mut row, &mut done)?;
                    let parts = out.chunks_exact_mut(O::PARTS);
                    parts.zip(&done).for_each(|(parts, v)| v.write(parts));
                }
                Ok::<_, Error>(())
            })?;
            Ok(out)
        })?;
        tensor_like(x, out, &shape)?.transpose(dim, axes - 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle::{Device, Tensor};
    use std::f64::consts::TAU;

    #[test]
    fn every_length_is_the_sum_that_defines_it() -> Result<()> {
        for length in [1, 2, 3, 4, 6, 7, 12, 30, 59, 61, 64, 67, 122, 134, 201] {
            let row: Vec<Complex<f64>> = (0..length)
                .map(|i| Complex::new((i as f64).sin(), (i as f64 * 0.7).cos()))
                .collect();
            let parts: Vec<f64> = row.iter().flat_map(|v| [v.re, v.im]).collect();
            let z = Tensor::from_vec(parts, (length, 2), &Device::Cpu)?;
            for forward in [true, false] {
                let found = fft(&z, &[0], Scale::None, forward)?.to_vec2::<f64>()?;
                for (k, found) in found.iter().enumerate() {
                    let sign = if forward { -1.0 } else { 1.0 };
                    let sum: Complex<f64> = (0..length)
                        .map(|i| {
                            let angle = sign * TAU * (i * k % length) as f64 / length as f64;
                            row[i] * Complex::from_polar(1.0, angle)
                        })
                        .sum();
                    let error = (sum.re - found[0]).abs() + (sum.im - found[1]).abs();
                    assert!(error < 1e-11, "{length} {k}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn real_numbers_are_complex_ones_without_a_second_part() -> Result<()> {
        for length in [1, 2, 5, 8, 67] {
            let x: Vec<f64> = (0..3 * length).map(|i| (i as f64 * 1.3).sin()).collect();
            let x = Tensor::from_vec(x, (3, length), &Device::Cpu)?;
            let whole = fft(&complex(&x, &x.zeros_like()?)?, &[1], Scale::None, true)?;
            for onesided in [true, false] {
                let found = fft_of_real(&x, &[1], Scale::None, onesided)?;
                let part = whole.narrow(1, 0, found.dim(1)?)?;
                assert!(largest(&(found - part)?)? < 1e-12);
            }
            let half = whole.narrow(1, 0, length / 2 + 1)?;
            let back = fft_to_real(&half, &[1], Scale::Length, length)?;
            assert!(largest(&(back - x)?)? < 1e-12);
        }
        Ok(())
    }

    fn largest(x: &Tensor) -> Result<f64> {
        x.abs()?.flatten_all()?.max(0)?.to_scalar()
    }
}
