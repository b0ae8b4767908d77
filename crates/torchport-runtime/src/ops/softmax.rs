//! Softmax and its logarithms, row by row: exponentials of distances from the largest element.

use super::cast::Element;
use super::kernel::{fill_slice, float_compute_dtype, has_fma, vectorised, with_slice};
use super::math::{Exact, Fast, Math};
use super::reduce::{merge_lanes, Reduction, LANES};
use super::to_dtype;
use candle::{bail, DType, Result, Tensor};

/// The largest element, not counting what is not a number.
#[inline(always)]
fn largest<T: Element>(row: &[T]) -> f64 {
    let mut lanes = [T::cast_from_f64(f64::NEG_INFINITY); LANES];
    for group in row.chunks(LANES) {
        for (lane, &v) in lanes.iter_mut().zip(group) {
            *lane = if v > *lane { v } else { *lane };
        }
    }
    merge_lanes(lanes, &|a, b| if b > a { b } else { a }).cast_f64()
}

/// Leaves `exp(v - largest)` of each element in `out`; the sum of them all.
#[inline(always)]
fn exponentials<M: Math, T: Element>(row: &[T], out: &mut [T], largest: f64) -> f64 {
    let mut sums = [0.0; LANES];
    for (group, out) in row.chunks(LANES).zip(out.chunks_mut(LANES)) {
        for ((sum, &v), o) in sums.iter_mut().zip(group).zip(out) {
            let e = M::exp(v.cast_f64() - largest);
            *o = T::cast_from_f64(e);
            *sum += e;
        }
    }
    merge_lanes(sums, &|a, b| a + b)
}

#[inline(always)]
fn softmax_row<M: Math, T: Element>(row: &[T], out: &mut [T]) {
    let sum = exponentials::<M, T>(row, out, largest(row));
    let factor = 1.0 / sum;
    for o in out {
        *o = T::cast_from_f64(o.cast_f64() * factor);
    }
}

#[inline(always)]
fn log_softmax_row<M: Math, T: Element>(row: &[T], out: &mut [T]) {
    let largest = largest(row);
    let log = exponentials::<M, T>(row, out, largest).ln();
    for (o, v) in out.iter_mut().zip(row) {
        *o = T::cast_from_f64(v.cast_f64() - largest - log);
    }
}

/// Calls `f` with each row along `dim` and its place in the result.
fn by_rows<T: Element>(
    x: &Tensor,
    dim: usize,
    f: impl Fn(&[T], &mut [T]) + Sync,
) -> Result<Tensor> {
    let last = x.rank() - 1;
    let x = x.transpose(dim, last)?;
    let len = x.dim(last)?;
    let mut out = vec![T::default(); x.elem_count()];
    with_slice(&x, |data: &[T]| {
        fill_slice(&mut out, len, 4, |start, out| {
            let rows = data[start..].chunks(len.max(1));
            for (row, out) in rows.zip(out.chunks_mut(len.max(1))) {
                f(row, out);
            }
        });
        Ok(())
    })?;
    Tensor::from_vec(out, x.shape(), x.device())?.transpose(dim, last)
}

macro_rules! row_functions {
    ($($(#[$doc:meta])* $name:ident, $row:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(x: &Tensor, dim: usize) -> Result<Tensor> {
            if x.dtype().is_int() {
                bail!("{}: needs a floating point tensor, got {}", stringify!($name), x.dtype().as_str())
            }
            if x.rank() == 0 {
                return $name(&x.reshape(1)?, 0)?.reshape(());
            }
            let compute = float_compute_dtype(stringify!($name), x.dtype())?;
            let wide = to_dtype(x, compute)?;
            let y = match compute {
                DType::F64 => by_rows(&wide, dim, $row::<Exact, f64>)?,
                _ if !has_fma() => by_rows(&wide, dim, $row::<Exact, f32>)?,
                _ => by_rows(&wide, dim, |row, out| {
                    vectorised(
                        #[inline(always)]
                        || $row::<Fast, f32>(row, out),
                    )
                })?,
            };
            to_dtype(&y, x.dtype())
        }
    )*};
}

row_functions! {
    softmax, softmax_row;
    log_softmax, log_softmax_row;
}

#[inline(always)]
fn logsumexp_row<M: Math, T: Element>(row: &[T]) -> T {
    let largest = largest(row);
    // Infinities have no distance from each other.
    let origin = if largest.is_finite() { largest } else { 0.0 };
    let mut sums = [0.0; LANES];
    for group in row.chunks(LANES) {
        for (sum, &v) in sums.iter_mut().zip(group) {
            *sum += M::exp(v.cast_f64() - origin);
        }
    }
    T::cast_from_f64(origin + merge_lanes(sums, &|a, b| a + b).ln())
}

/// `log(sum(exp(x)))` over `dims`.
pub fn logsumexp(x: &Tensor, dims: &[usize], keepdim: bool) -> Result<Tensor> {
    let compute = float_compute_dtype("logsumexp", x.dtype())?;
    let result = if x.dtype().is_int() {
        compute
    } else {
        x.dtype()
    };
    let run = Reduction::new("logsumexp", &to_dtype(x, compute)?, dims, keepdim)?;
    let y = match compute {
        DType::F64 => run.by_rows(logsumexp_row::<Exact, f64>)?,
        _ if !has_fma() => run.by_rows(logsumexp_row::<Exact, f32>)?,
        _ => run.by_rows(|row| {
            vectorised(
                #[inline(always)]
                || logsumexp_row::<Fast, f32>(row),
            )
        })?,
    };
    to_dtype(&y, result)
}
