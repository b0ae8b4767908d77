//! Running sums and products along a dimension.

use super::cast::Element;
use super::kernel::{compute_dtype, fill_slice, with_slice};
use super::to_dtype;
use candle::{DType, Result, Tensor};

fn scan<T: Element, A: Copy + Sync>(
    x: &Tensor,
    dim: usize,
    init: A,
    step: impl Fn(A, T) -> A + Sync,
    value: impl Fn(A) -> T + Sync,
) -> Result<Tensor> {
    let dims = x.dims();
    let inner: usize = dims[dim + 1..].iter().product();
    let block = dims[dim] * inner;
    if block == 0 {
        return Ok(x.clone());
    }
    let mut out = vec![T::default(); x.elem_count()];
    with_slice(x, |data: &[T]| {
        fill_slice(&mut out, block, 1, |start, out| {
            let blocks = data[start..].chunks(block).zip(out.chunks_mut(block));
            for (data, out) in blocks {
                if inner == 1 {
                    scan_row(data, out, init, &step, &value);
                } else {
                    scan_rows(data, out, &mut vec![init; inner], &step, &value);
                }
            }
        });
        Ok(())
    })?;
    Tensor::from_vec(out, dims, x.device())
}

fn scan_row<T: Copy, A: Copy>(
    row: &[T],
    out: &mut [T],
    mut state: A,
    step: &impl Fn(A, T) -> A,
    value: &impl Fn(A) -> T,
) {
    for (o, &v) in out.iter_mut().zip(row) {
        state = step(state, v);
        *o = value(state);
    }
}

fn scan_rows<T: Copy, A: Copy>(
    rows: &[T],
    out: &mut [T],
    states: &mut [A],
    step: &impl Fn(A, T) -> A,
    value: &impl Fn(A) -> T,
) {
    let inner = states.len();
    for (row, out) in rows.chunks(inner).zip(out.chunks_mut(inner)) {
        for ((state, &v), o) in states.iter_mut().zip(row).zip(out) {
            *state = step(*state, v);
            *o = value(*state);
        }
    }
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
