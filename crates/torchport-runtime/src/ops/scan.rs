//! Running sums and products along a dimension.

use super::cast::Element;
use super::kernel::{compute_dtype, with_slice};
use super::to_dtype;
use candle::{DType, Result, Tensor};

fn scan<T: Element, A: Copy>(
    x: &Tensor,
    dim: usize,
    init: A,
    step: impl Fn(A, T) -> A,
    value: impl Fn(A) -> T,
) -> Result<Tensor> {
    let dims = x.dims();
    let inner: usize = dims[dim + 1..].iter().product();
    let block = dims[dim] * inner;
    let mut out = vec![T::default(); x.elem_count()];
    with_slice(x, |data: &[T]| {
        let blocks = data.chunks(block.max(1)).zip(out.chunks_mut(block.max(1)));
        for (data, out) in blocks {
            let mut states = vec![init; inner];
            for (row, out) in data.chunks(inner).zip(out.chunks_mut(inner)) {
                for ((state, &v), o) in states.iter_mut().zip(row).zip(out) {
                    *state = step(*state, v);
                    *o = value(*state);
                }
            }
        }
        Ok(())
    })?;
    Tensor::from_vec(out, dims, x.device())
}

macro_rules! scans {
    ($($(#[$doc:meta])* $name:ident, $init:literal, $operator:tt, $wrapping:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(x: &Tensor, dim: usize) -> Result<Tensor> {
            if x.rank() == 0 {
                return $name(&x.reshape(1)?, 0)?.reshape(());
            }
            let compute = compute_dtype(stringify!($name), x.dtype())?;
            let wide = to_dtype(x, compute)?;
            let init = f64::from($init);
            let y = match compute {
                DType::I64 => return scan(&wide, dim, $init, |a: i64, v: i64| a.$wrapping(v), |a| a),
                DType::F64 => scan(&wide, dim, init, |a: f64, v: f64| a $operator v, |a| a)?,
                _ => scan(&wide, dim, init, |a: f64, v: f32| a $operator v as f64, |a| a as f32)?,
            };
            to_dtype(&y, x.dtype())
        }
    )*};
}

scans! {
    /// The sums of the elements so far along `dim`; of integers they are i64.
    cumsum, 0, +, wrapping_add;
    /// The products of the elements so far along `dim`; of integers they are i64.
    cumprod, 1, *, wrapping_mul;
}
