//! Softmax and its logarithms, row by row: exponentials of distances from the largest element.

use super::cast::Element;
use super::kernel::{fill_slice, float_compute_dtype, vectorised, with_slice};
use super::math::{Exact, Fast, Math};
use super::reduce::Reduction;
use super::to_dtype;
use candle::{bail, DType, Result, Tensor};

/// The largest element and the sum of all `exp(v - largest)`, which are left in `scratch`.
#[inline(always)]
fn exponentials<M: Math, T: Element>(row: &[T], scratch: &mut [T]) -> (f64, f64) {
    const LANES: usize = 16;
    let mut largest = [f64::NEG_INFINITY; LANES];
    let mut groups = row.chunks_exact(LANES);
    for group in &mut groups {
        for i in 0..LANES {
            let v = group[i].cast_f64();
            largest[i] = if v > largest[i] { v } else { largest[i] };
        }
    }
    for v in groups.remainder() {
        largest[0] = largest[0].max(v.cast_f64());
    }
    let largest = largest.into_iter().fold(f64::NEG_INFINITY, f64::max);
    let mut sums = [0.0; LANES];
    for (out, row) in scratch.chunks_mut(LANES).zip(row.chunks(LANES)) {
        for ((o, v), sum) in out.iter_mut().zip(row).zip(&mut sums) {
            let e = M::exp(v.cast_f64() - largest);
            *o = T::cast_from_f64(e);
            *sum += e;
        }
    }
    (largest, sums.into_iter().sum())
}

#[inline(always)]
fn softmax_row<M: Math, T: Element>(row: &[T], out: &mut [T]) {
    let (_, sum) = exponentials::<M, T>(row, out);
    let factor = 1.0 / sum;
    for o in out {
        *o = T::cast_from_f64(o.cast_f64() * factor);
    }
}

#[inline(always)]
fn log_softmax_row<M: Math, T: Element>(row: &[T], out: &mut [T]) {
    let (largest, sum) = exponentials::<M, T>(row, out);
    let log = M::ln(sum);
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

/// The largest element so far, and the sum of exponentials of distances from it.
#[derive(Clone, Copy)]
struct LogSum {
    largest: f64,
    sum: f64,
}

impl LogSum {
    fn merge(self, other: Self) -> Self {
        // Equal ones first: infinities have no distance.
        if self.largest == other.largest {
            return Self {
                largest: self.largest,
                sum: self.sum + other.sum,
            };
        }
        let (high, low) = if self.largest > other.largest || self.largest.is_nan() {
            (self, other)
        } else {
            (other, self)
        };
        Self {
            largest: high.largest,
            sum: high.sum + low.sum * (low.largest - high.largest).exp(),
        }
    }

    fn value(self) -> f64 {
        self.largest + self.sum.ln()
    }
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
    let none = LogSum {
        largest: f64::NEG_INFINITY,
        sum: 0.0,
    };
    let one = |largest: f64| LogSum { largest, sum: 1.0 };
    let y = match compute {
        DType::F64 => run.run(
            none,
            |a, v: f64| a.merge(one(v)),
            LogSum::merge,
            LogSum::value,
        )?,
        _ => run.run(
            none,
            |a, v: f32| a.merge(one(v as f64)),
            LogSum::merge,
            |a| a.value() as f32,
        )?,
    };
    to_dtype(&y, result)
}
