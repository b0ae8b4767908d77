//! Order along a dimension. Not a number counts as larger than all, equal elements keep their order.

use super::kernel::{compute_dtype, fill_slice, with_slice};
use super::select::Order;
use super::{contiguous, gather, to_dtype};
use candle::{bail, DType, Result, Tensor, WithDType};
use std::cmp::Ordering;

#[allow(clippy::eq_op)]
fn ascending<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    a.partial_cmp(b).unwrap_or_else(|| (a != a).cmp(&(b != b)))
}

/// How the elements of a row are put in order.
#[derive(Clone, Copy)]
enum Ranking {
    /// All of them; equal elements keep their order.
    Stable { descending: bool },
    /// The first of them, as torch's `topk` leaves them.
    Select { largest: bool, sorted: bool },
}

/// The indices (i64) of the first `k` elements of each row in order.
fn first_of_rows<T: WithDType>(x: &Tensor, k: usize, ranking: Ranking) -> Result<Vec<i64>> {
    let len = x.dims()[x.rank() - 1];
    let mut out = vec![0; x.elem_count() / len.max(1) * k];
    if out.is_empty() {
        return Ok(out);
    }
    with_slice(x, |data: &[T]| {
        fill_slice(&mut out, k, 16 * len / k, |start, out| {
            let mut order = Vec::with_capacity(len);
            for (i, out) in out.chunks_mut(k).enumerate() {
                let row = &data[(start / k + i) * len..][..len];
                order.clear();
                order.extend(row.iter().copied().zip(0..));
                rank(&mut order, k, ranking);
                for (o, &(_, index)) in out.iter_mut().zip(&order) {
                    *o = index;
                }
            }
        });
        Ok(())
    })?;
    Ok(out)
}

fn rank<T: WithDType>(row: &mut [(T, i64)], k: usize, ranking: Ranking) {
    match ranking {
        Ranking::Stable { descending } => row.sort_by(|(a, _), (b, _)| {
            let order = ascending(a, b);
            if descending {
                order.reverse()
            } else {
                order
            }
        }),
        Ranking::Select { largest, sorted } => {
            let before = |(a, _): &(T, i64), (b, _): &(T, i64)| match largest {
                true => ascending(a, b) == Ordering::Greater,
                false => ascending(a, b) == Ordering::Less,
            };
            // torch's own bound between its two ways.
            let few = 64 * k <= row.len();
            let mut order = Order::new(row, before);
            if few {
                return order.partial_sort(k);
            }
            order.select(k - 1);
            if sorted {
                order.sort(k - 1);
            }
        }
    }
}

fn first(op: &str, x: &Tensor, dim: usize, k: usize, ranking: Ranking) -> Result<Tensor> {
    if x.dim(dim)? < k {
        bail!("{op}: {k} elements out of {}", x.dim(dim)?)
    }
    let last = x.rank() - 1;
    let compute = compute_dtype(op, x.dtype())?;
    let rows = to_dtype(&contiguous(&x.transpose(dim, last)?)?, compute)?;
    let mut shape = rows.dims().to_vec();
    shape[last] = k;
    let order = match compute {
        DType::I64 => first_of_rows::<i64>(&rows, k, ranking)?,
        DType::F64 => first_of_rows::<f64>(&rows, k, ranking)?,
        _ => first_of_rows::<f32>(&rows, k, ranking)?,
    };
    Tensor::from_vec(order, shape, x.device())?.transpose(dim, last)
}

fn ranked(
    op: &str,
    x: &Tensor,
    dim: usize,
    k: usize,
    ranking: Ranking,
) -> Result<(Tensor, Tensor)> {
    if x.rank() == 0 {
        let (values, order) = ranked(op, &x.reshape(1)?, dim, k, ranking)?;
        return Ok((values.reshape(())?, order.reshape(())?));
    }
    let order = first(op, x, dim, k, ranking)?;
    Ok((gather(x, dim, &order)?, order))
}

/// The `k` largest or smallest elements along `dim`, and their indices (i64). Which of equal elements
/// are taken, and their order if it is not to be `sorted`, is as torch has it on a CPU.
pub fn topk(
    x: &Tensor,
    k: usize,
    dim: usize,
    largest: bool,
    sorted: bool,
) -> Result<(Tensor, Tensor)> {
    ranked("topk", x, dim, k, Ranking::Select { largest, sorted })
}

/// The elements in order along `dim`, and their indices (i64).
pub fn sort(x: &Tensor, dim: usize, descending: bool) -> Result<(Tensor, Tensor)> {
    let len = if x.rank() == 0 { 1 } else { x.dim(dim)? };
    ranked("sort", x, dim, len, Ranking::Stable { descending })
}

/// The indices (i64) of the elements in order along `dim`.
pub fn argsort(x: &Tensor, dim: usize, descending: bool) -> Result<Tensor> {
    Ok(sort(x, dim, descending)?.1)
}
