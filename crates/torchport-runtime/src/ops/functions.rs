//! Functions of one tensor that networks use seldom: other bases, inverse hyperbolic ones, and questions.

use super::kernel::{float_compute_dtype, map};
use super::math::{Fast, Math};
use super::to_dtype;
use super::unary::map_float;
use candle::{DType, Result, Tensor};

macro_rules! float_functions {
    ($($name:ident, $function:expr;)*) => {$(
        pub fn $name(x: &Tensor) -> Result<Tensor> {
            map_float(stringify!($name), x, $function, $function)
        }
    )*};
}

float_functions! {
    exp2, f64::exp2;
    asinh, libm::asinh;
    acosh, libm::acosh;
    atanh, libm::atanh;
    erfc, libm::erfc;
}

pub fn log10(x: &Tensor) -> Result<Tensor> {
    map_float(
        "log10",
        x,
        #[inline(always)]
        |v| Fast::ln(v) * std::f64::consts::LOG10_E,
        f64::log10,
    )
}

/// Questions about each element, answered as u8.
macro_rules! questions {
    ($($(#[$doc:meta])* $name:ident($x:ident) => $answer:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(x: &Tensor) -> Result<Tensor> {
            let compute = float_compute_dtype(stringify!($name), x.dtype())?;
            let x = to_dtype(x, compute)?;
            match compute {
                DType::F64 => map(&x, |$x: f64| ($answer) as u8),
                _ => map(&x, |$x: f32| ($answer) as u8),
            }
        }
    )*};
}

questions! {
    isfinite(x) => x.is_finite();
    isposinf(x) => x.is_infinite() && x > 0.0;
    isneginf(x) => x.is_infinite() && x < 0.0;
    /// Also set for the negative zero.
    signbit(x) => x.is_sign_negative();
}
