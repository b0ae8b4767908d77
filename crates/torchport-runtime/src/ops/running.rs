//! Running extremes and sums of exponentials along a dimension.

use super::cast::Element;
use super::kernel::{compute_dtype, with_slice};
use super::to_dtype;
use candle::{DType, Result, Tensor};

/// The largest element so far along `dim` and where it is (i64): the last of equal ones, and not a
/// number wins.
pub fn cummax(x: &Tensor, dim: usize) -> Result<(Tensor, Tensor)> {
    extremes("cummax", x, dim, |v, best| v >= best, |v, best| v >= best)
}

/// The smallest element so far along `dim` and where it is (i64): the last of equal ones, and not a
/// number wins.
pub fn cummin(x: &Tensor, dim: usize) -> Result<(Tensor, Tensor)> {
    extremes("cummin", x, dim, |v, best| v <= best, |v, best| v <= best)
}

fn extremes(
    op: &str,
    x: &Tensor,
    dim: usize,
    ints: fn(i64, i64) -> bool,
    floats: fn(f64, f64) -> bool,
) -> Result<(Tensor, Tensor)> {
    if x.rank() == 0 {
        let (values, places) = extremes(op, &x.reshape(1)?, 0, ints, floats)?;
        return Ok((values.reshape(())?, places.reshape(())?));
    }
    let places = match compute_dtype(op, x.dtype())? {
        DType::I64 => places(&to_dtype(x, DType::I64)?, dim, ints)?,
        _ => places(&to_dtype(x, DType::F64)?, dim, |v: f64, best: f64| {
            v.is_nan() || (!best.is_nan() && floats(v, best))
        })?,
    };
    Ok((super::gather(x, dim, &places)?, places))
}

fn places<T: Element>(x: &Tensor, dim: usize, better: impl Fn(T, T) -> bool) -> Result<Tensor> {
    let dims = x.dims();
    let (len, inner) = (dims[dim], dims[dim + 1..].iter().product::<usize>());
    let mut out = vec![0i64; x.elem_count()];
    with_slice(x, |data: &[T]| {
        for i in 0..data.len() {
            let row = i / inner % len;
            if row > 0 {
                let best = out[i - inner];
                let there = i - (row - best as usize) * inner;
                out[i] = if better(data[i], data[there]) {
                    row as i64
                } else {
                    best
                };
            }
        }
        Ok(())
    })?;
    Tensor::from_vec(out, dims, x.device())
}

/// `log(cumsum(exp(x)))` along `dim`, without leaving the range of numbers on the way.
pub fn logcumsumexp(x: &Tensor, dim: usize) -> Result<Tensor> {
    if x.rank() == 0 {
        return Ok(x.clone());
    }
    let dims = x.dims();
    let (len, inner) = (dims[dim], dims[dim + 1..].iter().product::<usize>());
    let sums = with_slice(&to_dtype(x, DType::F64)?, |data: &[f64]| {
        let mut out = data.to_vec();
        for i in 0..data.len() {
            if i / inner % len > 0 {
                out[i] = add_exponents(out[i - inner], data[i]);
            }
        }
        Ok(out)
    })?;
    to_dtype(&Tensor::from_vec(sums, dims, x.device())?, x.dtype())
}

/// `ln(exp(a) + exp(b))`.
pub(crate) fn add_exponents(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if high.is_infinite() {
        high
    } else {
        high + (low - high).exp().ln_1p()
    }
}
