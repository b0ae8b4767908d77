//! Order along a dimension. Not a number counts as larger than all, equal elements keep their order.

use super::kernel::{compute_dtype, fill_slice, with_slice};
use super::{contiguous, gather, to_dtype};
use candle::{bail, DType, Result, Tensor, WithDType};
use std::cmp::Ordering;

#[allow(clippy::eq_op)]
fn ascending<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    a.partial_cmp(b).unwrap_or_else(|| (a != a).cmp(&(b != b)))
}

/// The indices (i64) of the first `k` elements of each row in order.
fn first_of_rows<T: WithDType>(x: &Tensor, k: usize, descending: bool) -> Result<Vec<i64>> {
    let len = x.dims()[x.rank() - 1];
    let mut out = vec![0; x.elem_count() / len.max(1) * k];
    if out.is_empty() {
        return Ok(out);
    }
    with_slice(x, |data: &[T]| {
        fill_slice(&mut out, k, 16 * len / k, |start, out| {
            let compare = |(a, i): &(T, i64), (b, j): &(T, i64)| {
                let order = ascending(a, b);
                let order = if descending { order.reverse() } else { order };
                order.then(i.cmp(j))
            };
            let mut order = Vec::with_capacity(len);
            for (i, out) in out.chunks_mut(k).enumerate() {
                let row = &data[(start / k + i) * len..][..len];
                order.clear();
                order.extend(row.iter().copied().zip(0..));
                if k < len {
                    order.select_nth_unstable_by(k, compare);
                }
                order[..k].sort_unstable_by(compare);
                for (o, &(_, index)) in out.iter_mut().zip(&order) {
                    *o = index;
                }
            }
        });
        Ok(())
    })?;
    Ok(out)
}

fn first(op: &str, x: &Tensor, dim: usize, k: usize, descending: bool) -> Result<Tensor> {
    if x.dim(dim)? < k {
        bail!("{op}: {k} elements out of {}", x.dim(dim)?)
    }
    let last = x.rank() - 1;
    let compute = compute_dtype(op, x.dtype())?;
    let rows = to_dtype(&contiguous(&x.transpose(dim, last)?)?, compute)?;
    let mut shape = rows.dims().to_vec();
    shape[last] = k;
    let order = match compute {
        DType::I64 => first_of_rows::<i64>(&rows, k, descending)?,
        DType::F64 => first_of_rows::<f64>(&rows, k, descending)?,
        _ => first_of_rows::<f32>(&rows, k, descending)?,
    };
    Tensor::from_vec(order, shape, x.device())?.transpose(dim, last)
}

/// The `k` largest or smallest elements along `dim` in order, and their indices (i64).
pub fn topk(x: &Tensor, k: usize, dim: usize, largest: bool) -> Result<(Tensor, Tensor)> {
    if x.rank() == 0 {
        let (values, order) = topk(&x.reshape(1)?, k, 0, largest)?;
        return Ok((values.reshape(())?, order.reshape(())?));
    }
    let order = first("topk", x, dim, k, largest)?;
    Ok((gather(x, dim, &order)?, order))
}

/// The elements in order along `dim`, and their indices (i64).
pub fn sort(x: &Tensor, dim: usize, descending: bool) -> Result<(Tensor, Tensor)> {
    match x.rank() {
        0 => topk(x, 1, 0, descending),
        _ => topk(x, x.dim(dim)?, dim, descending),
    }
}

/// The indices (i64) of the elements in order along `dim`.
pub fn argsort(x: &Tensor, dim: usize, descending: bool) -> Result<Tensor> {
    Ok(sort(x, dim, descending)?.1)
}
