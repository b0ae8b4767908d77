//! New tensors from numbers.

use super::cast::Element;
use super::kernel::{fill, for_dtype};
use super::to_dtype;
use candle::{bail, DType, Device, Result, Tensor};

/// `torch.arange(start, end, step)`.
pub fn arange(start: f64, end: f64, step: f64, dtype: DType, device: &Device) -> Result<Tensor> {
    let len = ((end - start) / step).ceil();
    if step == 0.0 || !len.is_finite() || len < 0.0 {
        bail!("arange: no way from {start} to {end} in steps of {step}")
    }
    let len = len as usize;
    let values = if dtype.is_int() {
        let (start, step) = (start as i64, step as i64);
        let at = |i: usize| start.wrapping_add((i as i64).wrapping_mul(step));
        Tensor::from_vec((0..len).map(at).collect::<Vec<_>>(), len, device)?
    } else {
        let at = |i: usize| step.mul_add(i as f64, start);
        Tensor::from_vec((0..len).map(at).collect::<Vec<_>>(), len, device)?
    };
    to_dtype(&values, dtype)
}

/// `torch.full(shape, value)`.
pub fn full(shape: &[usize], value: f64, dtype: DType, device: &Device) -> Result<Tensor> {
    if dtype == DType::F8E4M3 {
        return to_dtype(&full(shape, value, DType::F32, device)?, dtype);
    }
    let len = shape.iter().product();
    for_dtype!("full", dtype, T => {
        let value = scalar::<T>(value);
        Tensor::from_vec(fill(len, 1, |_, out| out.fill(value)), shape, device)
    })
}

/// A Python number as an element: integers too large for it become the largest, as what is meant
/// by `i64::MAX` arrives here rounded to f64.
pub(crate) fn scalar<T: Element>(value: f64) -> T {
    match T::DTYPE {
        DType::I64 => T::from_i64(value as i64),
        _ => T::cast_from_f64(value),
    }
}
