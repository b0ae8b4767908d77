//! Arithmetic on two tensors, with broadcasting. Both have the same dtype.

use super::cast::round_to;
use super::kernel::{compute_dtype, map, zip};
use super::to_dtype;
use candle::{bail, DType, Result, Tensor};

fn same_dtype(op: &str, a: &Tensor, b: &Tensor) -> Result<DType> {
    if a.dtype() != b.dtype() {
        let (a, b) = (a.dtype().as_str(), b.dtype().as_str());
        bail!("{op}: the dtypes {a} and {b} differ")
    }
    compute_dtype(op, a.dtype())
}

/// Functions of two numbers of one dtype: a formula for floating point numbers, one for i64.
/// The last column is candle's own, for devices other than the CPU, where that is right.
macro_rules! number_functions {
    ($($(#[$doc:meta])* $name:ident($a:ident, $b:ident) => $float:expr, $int:expr $(, $elsewhere:ident)?;)*) => {$(
        $(#[$doc])*
        pub fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            let compute = same_dtype(stringify!($name), a, b)?;
            $(if !a.device().is_cpu() && !a.dtype().is_int() {
                return a.$elsewhere(b);
            })?
            let (x, y) = (to_dtype(a, compute)?, to_dtype(b, compute)?);
            let result = match compute {
                DType::I64 => zip(&x, &y, #[inline(always)] |$a: i64, $b: i64| $int)?,
                DType::F64 => zip(&x, &y, #[inline(always)] |$a: f64, $b: f64| $float)?,
                _ => zip(&x, &y, #[inline(always)] |$a: f32, $b: f32| $float)?,
            };
            to_dtype(&result, a.dtype())
        }
    )*};
}

number_functions! {
    add(a, b) => a + b, a.wrapping_add(b), broadcast_add;
    sub(a, b) => a - b, a.wrapping_sub(b), broadcast_sub;
    mul(a, b) => a * b, a.wrapping_mul(b), broadcast_mul;
    /// Not a number in either is the result, other than in candle.
    maximum(a, b) => if a.is_nan() || a > b { a } else { b }, a.max(b);
    minimum(a, b) => if a.is_nan() || a < b { a } else { b }, a.min(b);
    /// Also right for negative bases and for 0⁰, other than in candle.
    pow(a, b) => a.powf(b), int_pow(a, b);
}

/// `a + alpha * b`, rounded once.
pub fn add_scaled(a: &Tensor, b: &Tensor, alpha: f64) -> Result<Tensor> {
    let compute = same_dtype("add", a, b)?;
    let (x, y) = (to_dtype(a, compute)?, to_dtype(b, compute)?);
    let result = match compute {
        DType::I64 => {
            let alpha = alpha as i64;
            zip(&x, &y, |a: i64, b: i64| {
                a.wrapping_add(alpha.wrapping_mul(b))
            })?
        }
        DType::F64 => zip(&x, &y, |a: f64, b: f64| b.mul_add(alpha, a))?,
        _ => {
            let alpha = alpha as f32;
            zip(
                &x,
                &y,
                #[inline(always)]
                |a: f32, b: f32| b.mul_add(alpha, a),
            )?
        }
    };
    to_dtype(&result, a.dtype())
}

/// Functions that divide: integers by zero are an error there, as in torch.
macro_rules! division_functions {
    ($($(#[$doc:meta])* $name:ident($a:ident, $b:ident) => $float:expr, $int:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            let compute = same_dtype(stringify!($name), a, b)?;
            let (x, y) = (to_dtype(a, compute)?, to_dtype(b, compute)?);
            let result = match compute {
                DType::I64 => {
                    refuse_zero(stringify!($name), &y)?;
                    zip(&x, &y, |$a: i64, $b: i64| $int)?
                }
                DType::F64 => zip(&x, &y, |$a: f64, $b: f64| $float)?,
                _ => zip(&x, &y, |$a: f32, $b: f32| $float)?,
            };
            to_dtype(&result, a.dtype())
        }
    )*};
}

division_functions! {
    /// `torch.div(a, b, rounding_mode="floor")`.
    floor_divide(a, b) => {
        // As torch and Python do it: (a - fmod(a, b)) / b is nearly integral already.
        let rest = a % b;
        let quotient = (a - rest) / b;
        let quotient = if rest != 0.0 && (b < 0.0) != (rest < 0.0) { quotient - 1.0 } else { quotient };
        let floor = quotient.floor();
        let floor = if quotient - floor > 0.5 { floor + 1.0 } else { floor };
        if b == 0.0 {
            a / b
        } else if quotient == 0.0 {
            (a / b).signum() * 0.0
        } else {
            floor
        }
    }, {
        let quotient = a.wrapping_div(b);
        if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
    };
    /// What remains of the floor division; it has the sign of `b`.
    remainder(a, b) => {
        let rest = a % b;
        if rest != 0.0 && (b < 0.0) != (rest < 0.0) { rest + b } else { rest }
    }, {
        let rest = a.wrapping_rem(b);
        if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
    };
    /// What remains of the truncated division; it has the sign of `a`.
    fmod(a, b) => a % b, a.wrapping_rem(b);
}

fn refuse_zero(op: &str, divisor: &Tensor) -> Result<()> {
    super::kernel::with_slice(divisor, |values: &[i64]| {
        if values.contains(&0) {
            bail!("{op}: integer division by zero")
        }
        Ok(())
    })
}

/// True division: integers become f32.
pub fn div(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.dtype().is_int() && b.dtype() == a.dtype() {
        return div(&to_dtype(a, DType::F32)?, &to_dtype(b, DType::F32)?);
    }
    let compute = same_dtype("div", a, b)?;
    if !a.device().is_cpu() {
        return a.broadcast_div(b);
    }
    let (x, y) = (to_dtype(a, compute)?, to_dtype(b, compute)?);
    let result = match compute {
        DType::F64 => zip(&x, &y, |a: f64, b: f64| a / b)?,
        _ => zip(&x, &y, |a: f32, b: f32| a / b)?,
    };
    to_dtype(&result, a.dtype())
}

/// `torch.div(a, b, rounding_mode="trunc")`.
pub fn div_trunc(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if same_dtype("div", a, b)? != DType::I64 {
        return super::trunc(&div(a, b)?);
    }
    let (x, y) = (to_dtype(a, DType::I64)?, to_dtype(b, DType::I64)?);
    refuse_zero("div", &y)?;
    to_dtype(&zip(&x, &y, i64::wrapping_div)?, a.dtype())
}

/// The angle of the point `(x, y)`; integers become f32.
pub fn atan2(y: &Tensor, x: &Tensor) -> Result<Tensor> {
    if y.dtype().is_int() && x.dtype() == y.dtype() {
        return atan2(&to_dtype(y, DType::F32)?, &to_dtype(x, DType::F32)?);
    }
    let compute = same_dtype("atan2", y, x)?;
    let (wide_y, wide_x) = (to_dtype(y, compute)?, to_dtype(x, compute)?);
    let angle = match compute {
        DType::F64 => zip(&wide_y, &wide_x, f64::atan2)?,
        _ => zip(&wide_y, &wide_x, |y: f32, x: f32| {
            (y as f64).atan2(x as f64) as f32
        })?,
    };
    to_dtype(&angle, y.dtype())
}

/// Integer power; a negative exponent leaves only the powers of 1 and -1, as in torch.
pub(crate) fn int_pow(base: i64, exponent: i64) -> i64 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut rest) = (1i64, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest >>= 1;
    }
    result
}

macro_rules! comparisons {
    ($($name:ident, $scalar_name:ident, $operator:tt;)*) => {$(
        /// The comparison of its name, as u8.
        pub fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            let compute = same_dtype(stringify!($name), a, b)?;
            let (x, y) = (to_dtype(a, compute)?, to_dtype(b, compute)?);
            match compute {
                DType::I64 => zip(&x, &y, |a: i64, b: i64| (a $operator b) as u8),
                DType::F64 => zip(&x, &y, |a: f64, b: f64| (a $operator b) as u8),
                _ => zip(&x, &y, |a: f32, b: f32| (a $operator b) as u8),
            }
        }

        /// The comparison of its name with a number, as u8.
        pub fn $scalar_name(x: &Tensor, value: f64) -> Result<Tensor> {
            let compute = compute_dtype(stringify!($scalar_name), x.dtype())?;
            let wide = to_dtype(x, compute)?;
            match compute {
                DType::I64 if value.fract() == 0.0 => {
                    let value = value as i64;
                    map(&wide, |v: i64| (v $operator value) as u8)
                }
                DType::I64 => map(&wide, |v: i64| ((v as f64) $operator value) as u8),
                DType::F64 => map(&wide, |v: f64| (v $operator value) as u8),
                _ => {
                    let value = round_to(value, x.dtype()) as f32;
                    map(&wide, |v: f32| (v $operator value) as u8)
                }
            }
        }
    )*};
}

comparisons! {
    eq, eq_scalar, ==;
    ne, ne_scalar, !=;
    lt, lt_scalar, <;
    le, le_scalar, <=;
    gt, gt_scalar, >;
    ge, ge_scalar, >=;
}
