//! Arithmetic with a number: on the tensor's own dtype, exact for integers. A number with a
//! fraction makes integers f32, as in torch.

use super::binary::{div_trunc, floor_divide, fmod, remainder};
use super::cast::round_to;
use super::kernel::{compute_dtype, map};
use super::to_dtype;
use candle::{DType, Result, Tensor};

/// Arithmetic on the tensor's dtype: a formula for floating point numbers, one for i64. For half
/// types torch rounds the number first in sums, and leaves it as it is in products.
macro_rules! scalar_functions {
    ($($(#[$doc:meta])* $name:ident($x:ident, $s:ident) => $float:expr, $int:expr $(, $rounding:ident)?;)*) => {$(
        $(#[$doc])*
        pub fn $name(x: &Tensor, scalar: f64) -> Result<Tensor> {
            if x.dtype().is_int() && scalar.fract() != 0.0 {
                return $name(&to_dtype(x, DType::F32)?, scalar);
            }
            let compute = compute_dtype(stringify!($name), x.dtype())?;
            $(let scalar = $rounding(scalar, x.dtype());)?
            let wide = to_dtype(x, compute)?;
            let y = match compute {
                DType::I64 => {
                    let $s = scalar as i64;
                    map(&wide, #[inline(always)] |$x: i64| $int)?
                }
                DType::F64 => {
                    let $s = scalar;
                    map(&wide, #[inline(always)] |$x: f64| $float)?
                }
                _ => {
                    let $s = scalar as f32;
                    map(&wide, #[inline(always)] |$x: f32| $float)?
                }
            };
            to_dtype(&y, x.dtype())
        }
    )*};
}

scalar_functions! {
    add_scalar(x, s) => x + s, x.wrapping_add(s), round_to;
    mul_scalar(x, s) => x * s, x.wrapping_mul(s);
}

mod reversed {
    use super::*;
    scalar_functions! {
        sub_from(x, s) => s - x, s.wrapping_sub(x), round_to;
    }
}

/// `scalar - x`.
pub fn rsub_scalar(scalar: f64, x: &Tensor) -> Result<Tensor> {
    reversed::sub_from(x, scalar)
}

fn as_float(x: &Tensor) -> Result<Tensor> {
    match x.dtype() {
        dtype if dtype.is_int() => to_dtype(x, DType::F32),
        _ => Ok(x.clone()),
    }
}

mod quotient {
    use super::*;
    scalar_functions! {
        by(x, s) => x / s, x / s;
        of(x, s) => s / x, s / x;
    }
}

/// `x / scalar`; integers become f32.
pub fn div_scalar(x: &Tensor, scalar: f64) -> Result<Tensor> {
    quotient::by(&as_float(x)?, scalar)
}

/// `scalar / x`; integers become f32.
pub fn rdiv(scalar: f64, x: &Tensor) -> Result<Tensor> {
    quotient::of(&as_float(x)?, scalar)
}

fn operands(x: &Tensor, scalar: f64) -> Result<(Tensor, Tensor)> {
    let dtype = match x.dtype() {
        dtype if dtype.is_int() && scalar.fract() != 0.0 => DType::F32,
        dtype => dtype,
    };
    Ok((
        to_dtype(x, dtype)?,
        super::full(&[], scalar, dtype, x.device())?,
    ))
}

macro_rules! division_functions {
    ($($(#[$doc:meta])* $name:ident, $function:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(x: &Tensor, scalar: f64) -> Result<Tensor> {
            let (x, scalar) = operands(x, scalar)?;
            $function(&x, &scalar)
        }
    )*};
}

division_functions! {
    /// `x % scalar` as in Python.
    remainder_scalar, remainder;
    /// `torch.fmod(x, scalar)`.
    fmod_scalar, fmod;
    /// `x // scalar`.
    floor_divide_scalar, floor_divide;
}

/// `torch.div(x, scalar, rounding_mode="trunc")`.
pub fn div_trunc_scalar(x: &Tensor, scalar: f64) -> Result<Tensor> {
    let (x, number) = operands(x, scalar)?;
    let compute = compute_dtype("div", x.dtype())?;
    if compute == DType::I64 {
        return div_trunc(&x, &number);
    }
    // Other than with a tensor, torch does not round the quotient of half types before it is cut.
    let quotient = div_scalar(&to_dtype(&x, compute)?, scalar)?;
    to_dtype(&super::trunc(&quotient)?, x.dtype())
}
