//! Embeddings that are summed, averaged or compared in bags, and those whose rows are kept short.

use super::index::positions;
use super::{
    add_scalar, embedding, full, gt_scalar, logical_and, mul, norm, rdiv, scatter_value, to_dtype,
    where_cond,
};
use candle::{bail, DType, Result, Tensor};

/// What becomes of the rows of one bag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bag {
    Sum,
    Mean,
    Max,
}

/// `torch.nn.functional.embedding_bag` of flat `ids`; bag `b` begins at `offsets[b]`. Rows of the id
/// `padding` do not count. `last` says that the last offset is the end, and no bag of its own.
pub fn embedding_bag(
    weight: &Tensor,
    ids: &Tensor,
    offsets: &Tensor,
    bag: Bag,
    factors: Option<&Tensor>,
    padding: Option<usize>,
    last: bool,
) -> Result<Tensor> {
    let (count, width) = weight.dims2()?;
    if ids.rank() != 1 || offsets.rank() != 1 {
        let (ids, offsets) = (ids.dims(), offsets.dims());
        bail!("embedding_bag: ids of shape {ids:?} with offsets of shape {offsets:?}")
    }
    let mut rows = embedding(weight, ids)?;
    if let Some(factors) = factors {
        rows = super::mul(&rows, &factors.unsqueeze(1)?)?;
    }
    let kept = positions("embedding_bag", ids, count, false)?
        .into_iter()
        .map(|id| Some(id) != padding)
        .collect::<Vec<_>>();
    let mut starts = positions("embedding_bag", offsets, ids.elem_count() + 1, false)?;
    if !last {
        starts.push(ids.elem_count());
    }
    let bags = starts
        .windows(2)
        .map(|pair| {
            let members = (pair[0]..pair[1]).filter(|&i| kept[i]).map(|i| i as i64);
            fold(&rows, &members.collect::<Vec<_>>(), width, bag)
        })
        .collect::<Result<Vec<_>>>()?;
    Tensor::stack(&bags, 0)
}

fn fold(rows: &Tensor, members: &[i64], width: usize, bag: Bag) -> Result<Tensor> {
    if members.is_empty() {
        return full(&[width], 0.0, rows.dtype(), rows.device());
    }
    let members = Tensor::from_slice(members, members.len(), rows.device())?;
    let members = super::index_select(rows, 0, &members)?;
    match bag {
        Bag::Sum => super::sum(&members, &[0], false),
        Bag::Mean => super::mean(&members, &[0], false),
        Bag::Max => super::amax(&members, &[0], false),
    }
}
/// `weight` in which rows that `ids` name and whose norm of order `p` is above `longest` are shortened to it.
pub fn embedding_renorm(weight: &Tensor, ids: &Tensor, longest: f64, p: f64) -> Result<Tensor> {
    let (count, _) = weight.dims2()?;
    let lengths = to_dtype(&norm(weight, p, &[1], true)?, DType::F64)?;
    let ids = ids.reshape((ids.elem_count(), 1))?;
    let unread = full(&[count, 1], 0.0, DType::U8, weight.device())?;
    let is_read = scatter_value(&unread, 0, &ids, 1.0)?;
    let shortened = logical_and(&is_read, &gt_scalar(&lengths, longest)?)?;
    // The small number is torch's own.
    let factors = to_dtype(
        &rdiv(longest, &add_scalar(&lengths, 1e-7)?)?,
        weight.dtype(),
    )?;
    where_cond(&shortened, &mul(weight, &factors)?, weight)
}
