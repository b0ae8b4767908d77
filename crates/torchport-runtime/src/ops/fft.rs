//! Fourier transforms of any length, along any dimensions. Computed in f64 for all dtypes.

use super::real::{for_real, real_dtype, tensor_like, with_values, Real};
use super::{complex, contiguous, mul_scalar, real};
use candle::{bail, Result, Tensor};
use rayon::prelude::*;
use std::f64::consts::TAU;

type Pair = [f64; 2];

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
    let z = along(&complex(x, &x.zeros_like()?)?, last, true)?;
    let half = x.dim(last)? / 2 + 1;
    let mut z = if onesided {
        z.narrow(last, 0, half)?
    } else {
        z
    };
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
    let whole = mirrored(&z, last, length)?;
    let total = others.iter().map(|&d| z.dims()[d]).product::<usize>() * length;
    mul_scalar(&real(&along(&whole, last, false)?)?, scale.factor(total))
}

/// All `length` complex numbers along `dim`, of the first half: the others are their conjugates.
fn mirrored(z: &Tensor, dim: usize, length: usize) -> Result<Tensor> {
    let half = length / 2 + 1;
    let known = z.dim(dim)?.min(half);
    let mut z = z.narrow(dim, 0, known)?;
    if known < half {
        z = z.pad_with_zeros(dim, 0, half - known)?;
    }
    rows(&z, dim, length, |row, out| {
        for (i, o) in out.iter_mut().enumerate() {
            *o = if i < half {
                row[i]
            } else {
                [row[length - i][0], -row[length - i][1]]
            };
        }
        // What must be real is taken for real.
        out[0][1] = 0.0;
        if length.is_multiple_of(2) {
            out[length / 2][1] = 0.0;
        }
    })
}

fn along(z: &Tensor, dim: usize, forward: bool) -> Result<Tensor> {
    let plan = Plan::new(z.dim(dim)?);
    rows(z, dim, plan.length, |row, out| plan.run(row, out, forward))
}

/// `f` of each row of complex numbers along `dim`, which gives a row of `length` of them.
fn rows(
    z: &Tensor,
    dim: usize,
    length: usize,
    f: impl Fn(&[Pair], &mut [Pair]) + Sync,
) -> Result<Tensor> {
    let Some(pair) = z
        .rank()
        .checked_sub(1)
        .filter(|&d| z.dims()[d] == 2 && dim < d)
    else {
        bail!("no transform along dimension {dim} of {:?}", z.dims())
    };
    let before = z.dim(dim)?;
    let turned = contiguous(&z.transpose(dim, pair - 1)?)?;
    let mut shape = turned.dims().to_vec();
    shape[pair - 1] = length;
    if before == 0 || length == 0 {
        bail!("no transform of no numbers: {:?}", z.dims())
    }
    for_real!(real_dtype("fft", z.dtype())?, T => {
        let out = with_values::<T, _>(&turned, |values| {
            let mut out = vec![T::ZERO; shape.iter().product()];
            let pairs = out.par_chunks_mut(2 * length).zip(values.par_chunks(2 * before));
            pairs.for_each(|(out, row)| {
                let row: Vec<Pair> = row.chunks_exact(2).map(|v| [v[0].widen(), v[1].widen()]).collect();
                let mut done = vec![[0.0; 2]; length];
                f(&row, &mut done);
                for (o, v) in out.iter_mut().zip(done.iter().flatten()) {
                    *o = T::narrow(*v);
                }
            });
            Ok(out)
        })?;
        tensor_like(z, out, &shape)?.transpose(dim, pair - 1)
    })
}

/// A larger prime than this in a length is not worth its square: the transform becomes a convolution.
const LARGEST_PRIME: usize = 61;

/// What the transforms of one length have in common.
struct Plan {
    length: usize,
    factors: Vec<usize>,
    /// `exp(-2πi k / length)` for each `k`.
    turns: Vec<Pair>,
    chirp: Option<Chirp>,
}

impl Plan {
    fn new(length: usize) -> Self {
        let factors = factors(length);
        let chirp = match factors.last() {
            Some(&largest) if largest > LARGEST_PRIME => Some(Chirp::new(length)),
            _ => None,
        };
        Self {
            length,
            factors,
            turns: turns(length),
            chirp,
        }
    }

    fn run(&self, row: &[Pair], out: &mut [Pair], forward: bool) {
        let conjugate = |v: &Pair| [v[0], -v[1]];
        if !forward {
            let row: Vec<Pair> = row.iter().map(conjugate).collect();
            self.run(&row, out, true);
            out.iter_mut().for_each(|v| *v = conjugate(v));
            return;
        }
        match &self.chirp {
            Some(chirp) => chirp.run(row, out),
            None => self.split(row, 1, out, &self.factors),
        }
    }

    /// The transform of every `stride`-th number: those of the parts, put together by the first factor.
    fn split(&self, row: &[Pair], stride: usize, out: &mut [Pair], factors: &[usize]) {
        let Some((&parts, rest)) = factors.split_first() else {
            out[0] = row[0];
            return;
        };
        let length = out.len() / parts;
        for (part, out) in out.chunks_mut(length).enumerate() {
            self.split(&row[part * stride..], stride * parts, out, rest);
        }
        let mut terms = [[0.0; 2]; LARGEST_PRIME];
        for k in 0..length {
            for (part, term) in terms[..parts].iter_mut().enumerate() {
                *term = times(out[part * length + k], self.turns[part * k * stride]);
            }
            for q in 0..parts {
                let sum = (0..parts).fold([0.0; 2], |sum, part| {
                    let turn = self.turns[part * q % parts * length * stride];
                    let term = times(terms[part], turn);
                    [sum[0] + term[0], sum[1] + term[1]]
                });
                out[q * length + k] = sum;
            }
        }
    }
}

fn factors(length: usize) -> Vec<usize> {
    let (mut rest, mut factors) = (length, vec![]);
    let mut prime = 2;
    while prime * prime <= rest {
        while rest % prime == 0 {
            factors.push(prime);
            rest /= prime;
        }
        prime += 1;
    }
    if rest > 1 {
        factors.push(rest);
    }
    factors
}

fn turns(length: usize) -> Vec<Pair> {
    (0..length).map(|k| turn(k, length)).collect()
}

/// `exp(-2πi k / length)`.
fn turn(k: usize, length: usize) -> Pair {
    let angle = TAU * k as f64 / length as f64;
    [angle.cos(), -angle.sin()]
}

fn times(a: Pair, b: Pair) -> Pair {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// Bluestein's way: a transform of any length as a convolution, whose length is a power of two.
struct Chirp {
    factors: Vec<Pair>,
    filter: Vec<Pair>,
    plan: Box<Plan>,
}

impl Chirp {
    fn new(length: usize) -> Self {
        let factors: Vec<Pair> = (0..length)
            .map(|k| turn(k * k % (2 * length), 2 * length))
            .collect();
        let plan = Plan::new((2 * length - 1).next_power_of_two());
        let mut kernel = vec![[0.0; 2]; plan.length];
        for (k, v) in factors.iter().enumerate() {
            kernel[k] = [v[0], -v[1]];
            kernel[(plan.length - k) % plan.length] = kernel[k];
        }
        let mut filter = vec![[0.0; 2]; plan.length];
        plan.run(&kernel, &mut filter, true);
        Self {
            factors,
            filter,
            plan: Box::new(plan),
        }
    }

    fn run(&self, row: &[Pair], out: &mut [Pair]) {
        let size = self.plan.length;
        let mut padded = vec![[0.0; 2]; size];
        for ((p, &v), &f) in padded.iter_mut().zip(row).zip(&self.factors) {
            *p = times(v, f);
        }
        let mut turned = vec![[0.0; 2]; size];
        self.plan.run(&padded, &mut turned, true);
        for (v, &f) in turned.iter_mut().zip(&self.filter) {
            *v = times(*v, f);
        }
        self.plan.run(&turned, &mut padded, false);
        for ((o, &v), &f) in out.iter_mut().zip(&padded).zip(&self.factors) {
            let v = times(v, f);
            *o = [v[0] / size as f64, v[1] / size as f64];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_the_sum_that_defines_it() {
        for length in [1, 2, 3, 4, 6, 7, 12, 30, 59, 61, 64, 67, 122, 134, 201] {
            let row: Vec<Pair> = (0..length)
                .map(|i| [(i as f64).sin(), (i as f64 * 0.7).cos()])
                .collect();
            let mut out = vec![[0.0; 2]; length];
            for forward in [true, false] {
                Plan::new(length).run(&row, &mut out, forward);
                for (k, found) in out.iter().enumerate() {
                    let sum = row.iter().enumerate().fold([0.0; 2], |sum, (i, &v)| {
                        let t = turn(i * k % length, length);
                        let term = times(v, if forward { t } else { [t[0], -t[1]] });
                        [sum[0] + term[0], sum[1] + term[1]]
                    });
                    assert!(
                        (sum[0] - found[0]).abs() + (sum[1] - found[1]).abs() < 1e-11,
                        "{length} {k}"
                    );
                }
            }
        }
    }
}
