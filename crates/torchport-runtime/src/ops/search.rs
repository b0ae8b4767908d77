//! Where values belong among sorted ones.

use super::kernel::{compute_dtype, with_slice};
use super::to_dtype;
use candle::{bail, DType, Result, Tensor, WithDType};
use std::cmp::Ordering;

/// For each value the index (i64) at which it keeps the last dimension of `sorted` sorted; behind
/// equal elements when `right`. `sorted` is one row for all values, or has a row for each of theirs.
pub fn searchsorted(sorted: &Tensor, values: &Tensor, right: bool) -> Result<Tensor> {
    if sorted.dtype() != values.dtype() {
        let (sorted, values) = (sorted.dtype().as_str(), values.dtype().as_str());
        bail!("searchsorted: values of dtype {values} among dtype {sorted}")
    }
    let rows_agree = sorted.rank() == values.rank()
        && sorted.rank() > 0
        && sorted.dims()[..sorted.rank() - 1] == values.dims()[..values.rank() - 1];
    if sorted.rank() != 1 && !rows_agree {
        let (sorted, values) = (sorted.dims(), values.dims());
        bail!("searchsorted: values of shape {values:?} among shape {sorted:?}")
    }
    let compute = compute_dtype("searchsorted", values.dtype())?;
    let (sorted, wide) = (to_dtype(sorted, compute)?, to_dtype(values, compute)?);
    match compute {
        DType::I64 => places::<i64>(&sorted, &wide, right),
        DType::F64 => places::<f64>(&sorted, &wide, right),
        _ => places::<f32>(&sorted, &wide, right),
    }
}

fn places<T: WithDType>(sorted: &Tensor, values: &Tensor, right: bool) -> Result<Tensor> {
    let len = sorted.dims()[sorted.rank() - 1];
    let per_row = match sorted.rank() {
        1 => values.elem_count(),
        rank => values.dims()[rank - 1],
    };
    let found = with_slice(sorted, |sorted: &[T]| {
        with_slice(values, |values: &[T]| {
            let place = |(i, value): (usize, &T)| {
                let row = &sorted[i / per_row * len..][..len];
                let before = |other: &T| match other.partial_cmp(value) {
                    Some(Ordering::Equal) => right,
                    Some(order) => order == Ordering::Less,
                    // Not a number belongs behind all.
                    None => true,
                };
                row.partition_point(before) as i64
            };
            Ok(values.iter().enumerate().map(place).collect::<Vec<_>>())
        })
    })?;
    Tensor::from_vec(found, values.shape(), values.device())
}
