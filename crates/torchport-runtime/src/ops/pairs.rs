//! Functions of two tensors that networks use seldom, with broadcasting. Both have the same dtype.

use super::kernel::{compute_dtype, zip};
use super::to_dtype;
use candle::{bail, DType, Result, Tensor};

/// `float` or `int` of every pair, computed in f64 or i64.
pub(crate) fn zip_wide(
    op: &str,
    a: &Tensor,
    b: &Tensor,
    float: impl Fn(f64, f64) -> f64 + Sync,
    int: Option<fn(i64, i64) -> i64>,
) -> Result<Tensor> {
    if a.dtype() != b.dtype() {
        let (a, b) = (a.dtype().as_str(), b.dtype().as_str());
        bail!("{op}: the dtypes {a} and {b} differ")
    }
    let compute = compute_dtype(op, a.dtype())?;
    let (x, y) = (to_dtype(a, compute)?, to_dtype(b, compute)?);
    let result = match (compute, int) {
        (DType::I64, Some(int)) => zip(&x, &y, int)?,
        (DType::I64, None) => bail!("{op}: dtype {} is not supported", a.dtype().as_str()),
        (DType::F64, _) => zip(&x, &y, &float)?,
        _ => zip(&x, &y, |a: f32, b: f32| float(a as f64, b as f64) as f32)?,
    };
    to_dtype(&result, a.dtype())
}

/// The larger of both; other than in `maximum`, a number wins over NaN.
pub fn fmax(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    zip_wide("fmax", a, b, f64::max, Some(i64::max))
}

/// The smaller of both; other than in `minimum`, a number wins over NaN.
pub fn fmin(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    zip_wide("fmin", a, b, f64::min, Some(i64::min))
}

/// `sqrt(a² + b²)`.
pub fn hypot(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    zip_wide("hypot", a, b, f64::hypot, None)
}

/// `|a|` with the sign of `b`.
pub fn copysign(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    zip_wide("copysign", a, b, f64::copysign, None)
}

fn shift(op: &str, a: &Tensor, b: &Tensor, int: fn(i64, i64) -> i64) -> Result<Tensor> {
    if !a.dtype().is_int() {
        bail!("{op}: dtype {} is not supported", a.dtype().as_str())
    }
    zip_wide(op, a, b, |a, _| a, Some(int))
}

/// `a << b`; what is shifted out of all bits is zero.
pub fn bitwise_left_shift(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    shift("bitwise_left_shift", a, b, |a, b| match b {
        0..=63 => a << b,
        _ => 0,
    })
}

/// `a >> b`; what is shifted out of all bits leaves the sign.
pub fn bitwise_right_shift(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    shift("bitwise_right_shift", a, b, |a, b| match b {
        0..=63 => a >> b,
        _ => a >> 63,
    })
}

/// `float` of every pair, computed in f64; both have the same floating point dtype.
pub(crate) fn float_pair(
    op: &str,
    a: &Tensor,
    b: &Tensor,
    float: impl Fn(f64, f64) -> f64 + Sync,
) -> Result<Tensor> {
    zip_wide(op, a, b, float, None)
}
