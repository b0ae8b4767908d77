//! Where along a dimension the largest or smallest element is.

use super::kernel::{compute_dtype, fill_slice, with_slice};
use super::{gather, to_dtype};
use candle::{bail, DType, Result, Tensor, WithDType};

/// The positions (i64) along `dim` of the first elements that are `better` than all before,
/// in a tensor that keeps the dimension with size one.
fn positions<T: WithDType>(
    x: &Tensor,
    dim: usize,
    better: impl Fn(T, T) -> bool + Sync,
) -> Result<Tensor> {
    let dims = x.dims();
    let inner: usize = dims[dim + 1..].iter().product();
    let mut shape = dims.to_vec();
    shape[dim] = 1;
    let mut out = vec![0i64; shape.iter().product()];
    if dims[dim] == 0 && !out.is_empty() {
        bail!("no elements to choose from along dimension {dim} of {dims:?}")
    }
    with_slice(x, |data: &[T]| {
        fill_slice(&mut out, 1, dims[dim], |start, out| {
            for (i, o) in out.iter_mut().enumerate() {
                let (outer, column) = ((start + i) / inner, (start + i) % inner);
                let first = outer * dims[dim] * inner + column;
                let mut best = data[first];
                for r in 1..dims[dim] {
                    let v = data[first + r * inner];
                    if better(v, best) {
                        best = v;
                        *o = r as i64;
                    }
                }
            }
        });
        Ok(())
    })?;
    Tensor::from_vec(out, shape, x.device())
}

fn position(op: &str, x: &Tensor, dim: usize, largest: bool) -> Result<Tensor> {
    let compute = compute_dtype(op, x.dtype())?;
    let x = to_dtype(x, compute)?;
    match (compute, largest) {
        (DType::I64, true) => positions(&x, dim, |v: i64, best| v > best),
        (DType::I64, false) => positions(&x, dim, |v: i64, best| v < best),
        (DType::F64, true) => positions(&x, dim, |v: f64, best| v > best || nan_first(v, best)),
        (DType::F64, false) => positions(&x, dim, |v: f64, best| v < best || nan_first(v, best)),
        (_, true) => positions(&x, dim, |v: f32, best| v > best || nan_first(v, best)),
        (_, false) => positions(&x, dim, |v: f32, best| v < best || nan_first(v, best)),
    }
}

#[allow(clippy::eq_op)]
#[inline(always)]
fn nan_first<T: PartialEq + Copy>(v: T, best: T) -> bool {
    v != v && best == best
}

fn with_position(
    op: &str,
    x: &Tensor,
    dim: usize,
    keepdim: bool,
    largest: bool,
) -> Result<(Tensor, Tensor)> {
    if x.rank() == 0 {
        return Ok((x.clone(), Tensor::zeros((), DType::I64, x.device())?));
    }
    let index = position(op, x, dim, largest)?;
    let values = gather(x, dim, &index)?;
    match keepdim {
        true => Ok((values, index)),
        false => Ok((values.squeeze(dim)?, index.squeeze(dim)?)),
    }
}

/// The largest elements along `dim`, and where they are (i64); not a number wins.
pub fn max_dim(x: &Tensor, dim: usize, keepdim: bool) -> Result<(Tensor, Tensor)> {
    with_position("max", x, dim, keepdim, true)
}

/// The smallest elements along `dim`, and where they are (i64); not a number wins.
pub fn min_dim(x: &Tensor, dim: usize, keepdim: bool) -> Result<(Tensor, Tensor)> {
    with_position("min", x, dim, keepdim, false)
}

/// Where along `dim` the largest element is (i64), the first of several.
pub fn argmax(x: &Tensor, dim: usize, keepdim: bool) -> Result<Tensor> {
    Ok(with_position("argmax", x, dim, keepdim, true)?.1)
}

/// Where along `dim` the smallest element is (i64), the first of several.
pub fn argmin(x: &Tensor, dim: usize, keepdim: bool) -> Result<Tensor> {
    Ok(with_position("argmin", x, dim, keepdim, false)?.1)
}
