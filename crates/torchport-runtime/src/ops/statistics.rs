//! Sums, means, extremes and the like over dimensions. Floating point sums are kept in f64.

use super::cast::Element;
use super::kernel::{compute_dtype, float_compute_dtype};
use super::reduce::Reduction;
use super::{to_bool, to_dtype};
use candle::{bail, DType, Result, Tensor};

/// The sum over `dims`; of integers it is i64.
pub fn sum(x: &Tensor, dims: &[usize], keepdim: bool) -> Result<Tensor> {
    accumulate("sum", x, dims, keepdim, Total::Sum)
}

/// The product over `dims`; of integers it is i64.
pub fn prod(x: &Tensor, dims: &[usize], keepdim: bool) -> Result<Tensor> {
    accumulate("prod", x, dims, keepdim, Total::Product)
}

#[derive(Clone, Copy)]
enum Total {
    Sum,
    Product,
}

fn accumulate(op: &str, x: &Tensor, dims: &[usize], keepdim: bool, total: Total) -> Result<Tensor> {
    let compute = compute_dtype(op, x.dtype())?;
    let run = Reduction::new(op, &to_dtype(x, compute)?, dims, keepdim)?;
    let y = match (compute, total) {
        (DType::I64, Total::Sum) => return run.run(0, i64::wrapping_add, i64::wrapping_add, |v| v),
        (DType::I64, Total::Product) => {
            return run.run(1, i64::wrapping_mul, i64::wrapping_mul, |v| v)
        }
        (DType::F64, Total::Sum) => gather::<f64>(&run, 0.0, |a, v| a + v, |a, b| a + b, |a| a)?,
        (DType::F64, Total::Product) => {
            gather::<f64>(&run, 1.0, |a, v| a * v, |a, b| a * b, |a| a)?
        }
        (_, Total::Sum) => gather::<f32>(&run, 0.0, |a, v| a + v, |a, b| a + b, |a| a)?,
        (_, Total::Product) => gather::<f32>(&run, 1.0, |a, v| a * v, |a, b| a * b, |a| a)?,
    };
    to_dtype(&y, x.dtype())
}

/// A reduction of floating point numbers in f64.
fn gather<T: Element>(
    run: &Reduction,
    init: f64,
    step: impl Fn(f64, f64) -> f64 + Sync,
    merge: impl Fn(f64, f64) -> f64 + Sync,
    finish: impl Fn(f64) -> f64 + Sync,
) -> Result<Tensor> {
    run.run(
        init,
        #[inline(always)]
        |state, v: T| step(state, v.cast_f64()),
        merge,
        |state| T::cast_from_f64(finish(state)),
    )
}

fn float_reduction(op: &str, x: &Tensor, dims: &[usize], keepdim: bool) -> Result<Reduction> {
    if x.dtype().is_int() {
        bail!(
            "{op}: needs a floating point tensor, got {}",
            x.dtype().as_str()
        )
    }
    let compute = float_compute_dtype(op, x.dtype())?;
    Reduction::new(op, &to_dtype(x, compute)?, dims, keepdim)
}

/// `$run` with `$t` being f64 for f64 tensors, and else f32.
macro_rules! in_floats {
    ($x:expr, $t:ident => $run:expr) => {{
        let y = match $x.dtype() {
            DType::F64 => {
                type $t = f64;
                $run
            }
            _ => {
                type $t = f32;
                $run
            }
        };
        to_dtype(&y?, $x.dtype())
    }};
}

/// The mean over `dims`.
pub fn mean(x: &Tensor, dims: &[usize], keepdim: bool) -> Result<Tensor> {
    let run = float_reduction("mean", x, dims, keepdim)?;
    let count = run.reduced as f64;
    in_floats!(x, T => gather::<T>(&run, 0.0, |a, v| a + v, |a, b| a + b, |a| a / count))
}

/// Mean and sum of squared distances from it so far (Welford), with the number of elements.
#[derive(Clone, Copy)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    const NONE: Self = Self {
        count: 0.0,
        mean: 0.0,
        squares: 0.0,
    };

    #[inline(always)]
    fn step(self, v: f64) -> Self {
        let count = self.count + 1.0;
        let distance = v - self.mean;
        let mean = self.mean + distance / count;
        let squares = self.squares + distance * (v - mean);
        Self {
            count,
            mean,
            squares,
        }
    }

    fn merge(self, other: Self) -> Self {
        if other.count == 0.0 {
            return self;
        }
        let count = self.count + other.count;
        let distance = other.mean - self.mean;
        let share = other.count / count;
        Self {
            count,
            mean: self.mean + distance * share,
            squares: self.squares + other.squares + distance * distance * self.count * share,
        }
    }
}

/// The variance over `dims`, divided by the number of elements less `correction`.
pub fn var(x: &Tensor, dims: &[usize], correction: f64, keepdim: bool) -> Result<Tensor> {
    let run = float_reduction("var", x, dims, keepdim)?;
    of_moments(x, &run, |state| state.squares / divisor(&run, correction))
}

/// The standard deviation over `dims`: the root of `var`, rounded once.
pub fn std(x: &Tensor, dims: &[usize], correction: f64, keepdim: bool) -> Result<Tensor> {
    let run = float_reduction("std", x, dims, keepdim)?;
    of_moments(x, &run, |state| {
        (state.squares / divisor(&run, correction)).sqrt()
    })
}

/// The variance and the mean beside it, which has no number where the variance has none.
pub fn var_mean(
    x: &Tensor,
    dims: &[usize],
    correction: f64,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    Ok((
        var(x, dims, correction, keepdim)?,
        mean_beside(x, dims, keepdim)?,
    ))
}

/// The standard deviation and the mean beside it.
pub fn std_mean(
    x: &Tensor,
    dims: &[usize],
    correction: f64,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    Ok((
        std(x, dims, correction, keepdim)?,
        mean_beside(x, dims, keepdim)?,
    ))
}

fn mean_beside(x: &Tensor, dims: &[usize], keepdim: bool) -> Result<Tensor> {
    let run = float_reduction("mean", x, dims, keepdim)?;
    of_moments(x, &run, |state| match state.count {
        0.0 => f64::NAN,
        _ => state.mean,
    })
}

fn divisor(run: &Reduction, correction: f64) -> f64 {
    (run.reduced as f64 - correction).max(0.0)
}

fn of_moments(
    x: &Tensor,
    run: &Reduction,
    finish: impl Fn(Moments) -> f64 + Sync,
) -> Result<Tensor> {
    in_floats!(x, T => run.run(
        Moments::NONE,
        #[inline(always)]
        |state, v: T| state.step(v.cast_f64()),
        Moments::merge,
        |state| T::cast_from_f64(finish(state)),
    ))
}

/// The vector norm of order `p` over `dims`.
pub fn norm(x: &Tensor, p: f64, dims: &[usize], keepdim: bool) -> Result<Tensor> {
    let run = float_reduction("norm", x, dims, keepdim)?;
    let add = |a: f64, b: f64| a + b;
    let larger = |a: f64, b: f64| if b > a || b.is_nan() { b } else { a };
    let smaller = |a: f64, b: f64| if b < a || b.is_nan() { b } else { a };
    in_floats!(x, T => match p {
        2.0 => gather::<T>(&run, 0.0, |a, v| a + v * v, add, f64::sqrt),
        1.0 => gather::<T>(&run, 0.0, |a, v| a + v.abs(), add, |a| a),
        0.0 => gather::<T>(&run, 0.0, |a, v| a + (v != 0.0) as u8 as f64, add, |a| a),
        f64::INFINITY => gather::<T>(&run, 0.0, |a, v| larger(a, v.abs()), larger, |a| a),
        f64::NEG_INFINITY => {
            gather::<T>(&run, f64::INFINITY, |a, v| smaller(a, v.abs()), smaller, |a| a)
        }
        _ => gather::<T>(&run, 0.0, |a, v| a + v.abs().powf(p), add, |a| a.powf(1.0 / p)),
    })
}

macro_rules! extremes {
    ($($(#[$doc:meta])* $name:ident, $better:tt, $int_init:expr, $float_init:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(x: &Tensor, dims: &[usize], keepdim: bool) -> Result<Tensor> {
            let compute = compute_dtype(stringify!($name), x.dtype())?;
            let run = Reduction::new(stringify!($name), &to_dtype(x, compute)?, dims, keepdim)?;
            run.refuse_empty(stringify!($name))?;
            let int = |a: i64, v: i64| if v $better a { v } else { a };
            let single = |a: f32, v: f32| if v $better a || v.is_nan() { v } else { a };
            let double = |a: f64, v: f64| if v $better a || v.is_nan() { v } else { a };
            let y = match compute {
                DType::I64 => run.run($int_init, int, int, |v| v)?,
                DType::F64 => run.run(f64::$float_init, double, double, |v| v)?,
                _ => run.run(f32::$float_init, single, single, |v| v)?,
            };
            to_dtype(&y, x.dtype())
        }
    )*};
}

extremes! {
    /// The largest element over `dims`; not a number wins.
    amax, >, i64::MIN, NEG_INFINITY;
    /// The smallest element over `dims`; not a number wins.
    amin, <, i64::MAX, INFINITY;
}

/// One where any element over `dims` is not zero.
pub fn any(x: &Tensor, dims: &[usize], keepdim: bool) -> Result<Tensor> {
    let or = |a: u8, v: u8| a | v;
    Reduction::new("any", &to_bool(x)?, dims, keepdim)?.run(0, or, or, |v| v)
}

/// One where all elements over `dims` are not zero.
pub fn all(x: &Tensor, dims: &[usize], keepdim: bool) -> Result<Tensor> {
    let and = |a: u8, v: u8| a & v;
    Reduction::new("all", &to_bool(x)?, dims, keepdim)?.run(1, and, and, |v| v)
}
