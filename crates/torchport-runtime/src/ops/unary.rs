//! Functions of one tensor, element by element.

use super::cast::round_to;
use super::kernel::{compute_dtype, float_compute_dtype, has_fma, map, map_vectorised, with_slice};
use super::math::{Exact, Fast, Math, TRIGONOMETRIC_MAX};
use super::{pow, to_bool, to_dtype};
use candle::{bail, DType, Result, Tensor};

/// A floating point function: `fast` for what is computed in f32, `exact` for f64.
/// Integers become f32, as torch has it.
pub(crate) fn map_float(
    op: &str,
    x: &Tensor,
    fast: impl Fn(f64) -> f64 + Sync,
    exact: impl Fn(f64) -> f64 + Sync,
) -> Result<Tensor> {
    let compute = float_compute_dtype(op, x.dtype())?;
    let result = if x.dtype().is_int() {
        compute
    } else {
        x.dtype()
    };
    let x = to_dtype(x, compute)?;
    let y = match compute {
        DType::F64 => map(&x, exact)?,
        _ if !has_fma() => map(&x, |v: f32| exact(v as f64) as f32)?,
        _ => map_vectorised(
            &x,
            #[inline(always)]
            |v: f32| fast(v as f64) as f32,
        )?,
    };
    to_dtype(&y, result)
}

/// Floating point functions, written once in terms of `M: Math`.
macro_rules! float_functions {
    ($($(#[$doc:meta])* $name:ident($x:ident $(, $param:ident)*) => $formula:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(x: &Tensor $(, $param: f64)*) -> Result<Tensor> {
            #[inline(always)]
            fn at<M: Math>($x: f64 $(, $param: f64)*) -> f64 {
                $formula
            }
            map_float(
                stringify!($name),
                x,
                #[inline(always)]
                |v| at::<Fast>(v $(, $param)*),
                |v| at::<Exact>(v $(, $param)*),
            )
        }
    )*};
}

float_functions! {
    gelu(x) => 0.5 * x * M::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
    /// `gelu` with `approximate="tanh"`, where `(1 + tanh(u)) / 2` is `sigmoid(2u)`.
    gelu_tanh(x) => {
        let u = 2.0 * std::f64::consts::FRAC_2_PI.sqrt() * (x + 0.044715 * x * x * x);
        x / (1.0 + M::exp(-u))
    };
    silu(x) => x / (1.0 + M::exp(-x));
    /// `x tanh(softplus(x))`, where the tangent is a quotient of exponentials.
    mish(x) => {
        let e = M::exp(x);
        let n = e * (e + 2.0);
        if x > 40.0 { x } else { x * (n / (n + 2.0)) }
    };
    elu(x, alpha, scale, input_scale) => {
        let negative = alpha * M::expm1(x * input_scale);
        scale * if x < 0.0 { negative } else { x }
    };
    softplus(x, beta, threshold) => {
        let soft = M::ln_1p(M::exp(x * beta)) / beta;
        if x * beta > threshold { x } else { soft }
    };
    sigmoid(x) => 1.0 / (1.0 + M::exp(-x));
    log_sigmoid(x) => (if x > 0.0 { 0.0 } else { x }) - M::ln_1p(M::exp(-x.abs()));
    tanh(x) => M::tanh(x);
    erf(x) => M::erf(x);
    exp(x) => M::exp(x);
    expm1(x) => M::expm1(x);
    log(x) => M::ln(x);
    log1p(x) => M::ln_1p(x);
    log2(x) => M::ln(x) * std::f64::consts::LOG2_E;
    tan(x) => x.tan();
    asin(x) => x.asin();
    acos(x) => x.acos();
    atan(x) => x.atan();
    sinh(x) => x.sinh();
    cosh(x) => x.cosh();
}

/// Floating point functions that lose nothing in f32 itself.
macro_rules! plain_functions {
    ($($name:ident($x:ident $(, $param:ident)*) => $formula:expr;)*) => {$(
        pub fn $name(x: &Tensor $(, $param: f64)*) -> Result<Tensor> {
            let compute = float_compute_dtype(stringify!($name), x.dtype())?;
            let result = if x.dtype().is_int() { compute } else { x.dtype() };
            let wide = to_dtype(x, compute)?;
            let y = match compute {
                DType::F64 => map_vectorised(&wide, #[inline(always)] |$x: f64| $formula)?,
                _ => {
                    $(let $param = $param as f32;)*
                    map_vectorised(&wide, #[inline(always)] |$x: f32| $formula)?
                }
            };
            to_dtype(&y, result)
        }
    )*};
}

plain_functions! {
    sqrt(x) => x.sqrt();
    rsqrt(x) => 1.0 / x.sqrt();
    reciprocal(x) => 1.0 / x;
    softsign(x) => x / (1.0 + x.abs());
    leaky_relu(x, slope) => if x > 0.0 { x } else { x * slope };
    hardswish(x) => x * (x + 3.0).clamp(0.0, 6.0) / 6.0;
    hardsigmoid(x) => (x + 3.0).clamp(0.0, 6.0) / 6.0;
}

macro_rules! trigonometric_functions {
    ($($name:ident),*) => {$(
        pub fn $name(x: &Tensor) -> Result<Tensor> {
            let exact = |v: f64| v.$name();
            let fast_holds = |v: f32| (v.abs() as f64) < TRIGONOMETRIC_MAX;
            match x.dtype() {
                DType::F32 if every(x, fast_holds)? => map_float(
                    stringify!($name),
                    x,
                    #[inline(always)]
                    |v| Fast::$name(v),
                    exact,
                ),
                _ => map_float(stringify!($name), x, exact, exact),
            }
        }
    )*};
}

trigonometric_functions!(sin, cos);

fn every(x: &Tensor, test: impl Fn(f32) -> bool) -> Result<bool> {
    with_slice(x, |values: &[f32]| Ok(values.iter().all(|&v| test(v))))
}

/// Functions that keep the dtype: one formula for floating point numbers, one for i64.
macro_rules! number_functions {
    ($($(#[$doc:meta])* $name:ident($x:ident) => $float:expr, $int:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(x: &Tensor) -> Result<Tensor> {
            let compute = compute_dtype(stringify!($name), x.dtype())?;
            let wide = to_dtype(x, compute)?;
            let y = match compute {
                DType::I64 => map(&wide, |$x: i64| $int)?,
                DType::F64 => map_vectorised(&wide, #[inline(always)] |$x: f64| $float)?,
                _ => map_vectorised(&wide, #[inline(always)] |$x: f32| $float)?,
            };
            to_dtype(&y, x.dtype())
        }
    )*};
}

number_functions! {
    /// Not a number stays so, other than in candle.
    relu(x) => if x < 0.0 { 0.0 } else { x }, x.max(0);
    abs(x) => x.abs(), x.wrapping_abs();
    neg(x) => -x, x.wrapping_neg();
    sign(x) => if x == 0.0 || x.is_nan() { 0.0 } else { x.signum() }, x.signum();
    /// Halves go to the even neighbour.
    round(x) => x.round_ties_even(), x;
    floor(x) => x.floor(), x;
    ceil(x) => x.ceil(), x;
    trunc(x) => x.trunc(), x;
}

/// Limits floating point numbers to `[min, max]`; not a number stays so, and a bound that is none makes
/// all of them so.
pub fn clamp(x: &Tensor, min: Option<f64>, max: Option<f64>) -> Result<Tensor> {
    let compute = float_compute_dtype("clamp", x.dtype())?;
    let rounded = |bound: Option<f64>| bound.map(|bound| round_to(bound, x.dtype()));
    let (min, max) = (rounded(min), rounded(max));
    if [min, max].into_iter().flatten().any(f64::is_nan) {
        return super::full(x.dims(), f64::NAN, x.dtype(), x.device());
    }
    macro_rules! limit {
        ($ty:ident) => {{
            let (low, high) = (
                min.unwrap_or(f64::NEG_INFINITY),
                max.unwrap_or(f64::INFINITY),
            );
            let (low, high) = (low as $ty, high as $ty);
            #[inline(always)]
            move |v: $ty| limited(v, low, high)
        }};
    }
    let wide = to_dtype(x, compute)?;
    let y = match compute {
        DType::F64 => map(&wide, limit!(f64))?,
        _ => map(&wide, limit!(f32))?,
    };
    to_dtype(&y, x.dtype())
}

/// Limits integers to `[min, max]`.
pub fn clamp_int(x: &Tensor, min: Option<i64>, max: Option<i64>) -> Result<Tensor> {
    if !x.dtype().is_int() {
        bail!("clamp_int: dtype {} is not supported", x.dtype().as_str())
    }
    let (low, high) = (min.unwrap_or(i64::MIN), max.unwrap_or(i64::MAX));
    let y = map(&to_dtype(x, DType::I64)?, |v: i64| limited(v, low, high))?;
    to_dtype(&y, x.dtype())
}

/// If the bounds are in the wrong order, the upper one counts.
#[inline(always)]
fn limited<T: PartialOrd>(v: T, low: T, high: T) -> T {
    let v = if v < low { low } else { v };
    if v > high {
        high
    } else {
        v
    }
}

/// One where `x` is zero.
pub fn logical_not(x: &Tensor) -> Result<Tensor> {
    map(&to_bool(x)?, |v: u8| 1 - v)
}

/// `~x` of integers. For bools, which are u8 here, it is `logical_not`.
pub fn bitwise_not(x: &Tensor) -> Result<Tensor> {
    if !x.dtype().is_int() {
        bail!("bitwise_not: dtype {} is not supported", x.dtype().as_str())
    }
    let inverted = map(&to_dtype(x, DType::I64)?, |v: i64| !v)?;
    to_dtype(&inverted, x.dtype())
}

fn test(
    op: &str,
    x: &Tensor,
    f32_test: impl Fn(f32) -> bool + Sync,
    f64_test: impl Fn(f64) -> bool + Sync,
) -> Result<Tensor> {
    let compute = float_compute_dtype(op, x.dtype())?;
    let x = to_dtype(x, compute)?;
    match compute {
        DType::F64 => map(&x, |v: f64| f64_test(v) as u8),
        _ => map(&x, |v: f32| f32_test(v) as u8),
    }
}

pub fn isnan(x: &Tensor) -> Result<Tensor> {
    test("isnan", x, f32::is_nan, f64::is_nan)
}

pub fn isinf(x: &Tensor) -> Result<Tensor> {
    test("isinf", x, f32::is_infinite, f64::is_infinite)
}

/// `x ** exponent`. Integers stay integers when the exponent is one.
pub fn pow_scalar(x: &Tensor, exponent: f64) -> Result<Tensor> {
    if x.dtype().is_int() && exponent.fract() == 0.0 {
        if exponent < 0.0 {
            bail!("pow: integers to the negative integer power {exponent}")
        }
        let y = map(&to_dtype(x, DType::I64)?, |v: i64| {
            super::binary::int_pow(v, exponent as i64)
        })?;
        return to_dtype(&y, x.dtype());
    }
    let exponent = round_to(exponent, x.dtype());
    macro_rules! power {
        ($formula:expr) => {
            map_float(
                "pow",
                x,
                #[inline(always)]
                $formula,
                $formula,
            )
        };
    }
    match exponent {
        0.5 => sqrt(x),
        -0.5 => rsqrt(x),
        -1.0 => reciprocal(x),
        1.0 => power!(|v| v),
        2.0 => power!(|v| v * v),
        3.0 => power!(|v| v * v * v),
        4.0 => power!(|v| (v * v) * (v * v)),
        -2.0 => power!(|v| 1.0 / (v * v)),
        _ => power!(|v: f64| v.powf(exponent)),
    }
}

/// `base ** x`.
pub fn rpow(base: f64, x: &Tensor) -> Result<Tensor> {
    let dtype = if x.dtype().is_int() && base.fract() != 0.0 {
        DType::F32
    } else {
        x.dtype()
    };
    let x = to_dtype(x, dtype)?;
    pow(&super::full(&[], base, dtype, x.device())?, &x)
}
