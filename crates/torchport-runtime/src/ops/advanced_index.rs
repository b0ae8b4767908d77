//! Indexing by several tensors at once, and by masks.

use super::index::{contiguous_strides, positions, take};
use super::kernel::{broadcast_shape, with_slice};
use super::{contiguous, to_bool};
use candle::{bail, DType, Result, Tensor};

/// Where the elements are that index tensors (`None` for a whole dimension) name together: blocks of
/// `block` elements at `offsets` in a contiguous tensor, and the shape of the whole.
pub(crate) struct Indexed {
    pub(crate) offsets: Vec<usize>,
    pub(crate) block: usize,
    pub(crate) shape: Vec<usize>,
}

impl Indexed {
    pub(crate) fn new(op: &str, dims: &[usize], indices: &[Option<&Tensor>]) -> Result<Self> {
        let indices = expand_masks(op, dims, indices)?;
        let strides = contiguous_strides(dims);
        let indexed = |d: &usize| indices.get(*d).is_some_and(Option::is_some);
        let chosen = (0..dims.len()).filter(indexed).collect::<Vec<_>>();
        let (Some(&first), Some(&last)) = (chosen.first(), chosen.last()) else {
            return Ok(Self {
                offsets: vec![0],
                block: dims.iter().product(),
                shape: dims.to_vec(),
            });
        };
        let mut common = vec![];
        for index in indices.iter().flatten() {
            common = broadcast_shape(&common, index.dims())?;
        }
        let mut named = vec![0; common.iter().product()];
        for &d in &chosen {
            if let Some(index) = &indices[d] {
                let index = contiguous(&index.broadcast_as(&*common)?)?;
                let rows = positions(op, &index, dims[d], true)?;
                named
                    .iter_mut()
                    .zip(rows)
                    .for_each(|(o, row)| *o += row * strides[d]);
            }
        }
        let whole = (0..last).filter(|d| !indexed(d)).collect::<Vec<_>>();
        let mut others = vec![0];
        for &d in &whole {
            others = cross(
                &others,
                &(0..dims[d]).map(|i| i * strides[d]).collect::<Vec<_>>(),
            );
        }
        let whole_dims = whole.iter().map(|&d| dims[d]).collect::<Vec<_>>();
        let rest = &dims[last + 1..];
        // Index tensors side by side leave their dimensions in place, others put them first.
        let adjacent = last - first + 1 == chosen.len();
        let (offsets, shape) = match adjacent {
            true => (
                cross(&others, &named),
                [&whole_dims, &common, rest].concat(),
            ),
            false => (
                cross(&named, &others),
                [&common, &whole_dims, rest].concat(),
            ),
        };
        Ok(Self {
            offsets,
            block: rest.iter().product(),
            shape,
        })
    }
}

fn cross(outer: &[usize], inner: &[usize]) -> Vec<usize> {
    outer
        .iter()
        .flat_map(|&o| inner.iter().map(move |&i| o + i))
        .collect()
}

/// A mask over some dimensions is as many vectors of indices.
fn expand_masks(
    op: &str,
    dims: &[usize],
    indices: &[Option<&Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let mut expanded = vec![];
    for index in indices {
        match index {
            Some(mask) if mask.dtype() == DType::U8 => {
                let covered = dims.get(expanded.len()..expanded.len() + mask.rank());
                if covered != Some(mask.dims()) {
                    bail!(
                        "{op}: a mask of shape {:?} for a tensor of shape {dims:?}",
                        mask.dims()
                    )
                }
                let places = nonzero(mask)?;
                for d in 0..mask.rank() {
                    expanded.push(Some(places.narrow(1, d, 1)?.squeeze(1)?));
                }
            }
            index => expanded.push(index.cloned()),
        }
    }
    if expanded.len() > dims.len() {
        bail!(
            "{op}: {} indices for a tensor of shape {dims:?}",
            expanded.len()
        )
    }
    Ok(expanded)
}

/// The indices of all elements that are not zero, a row each (i64).
pub fn nonzero(x: &Tensor) -> Result<Tensor> {
    let strides = contiguous_strides(x.dims());
    let places = with_slice(&to_bool(x)?, |values: &[u8]| {
        let set = (0..values.len()).filter(|&i| values[i] != 0);
        Ok(set
            .flat_map(|i| (0..x.rank()).map(move |d| (i, d)))
            .map(|(i, d)| (i / strides[d] % x.dims()[d]) as i64)
            .collect::<Vec<_>>())
    })?;
    let count = match x.rank() {
        0 => super::sum(&to_bool(x)?, &[], false)?.to_scalar::<i64>()? as usize,
        rank => places.len() / rank,
    };
    Tensor::from_vec(places, (count, x.rank()), x.device())
}

/// `x[indices]` with index tensors or masks, `None` where a dimension stays whole.
pub fn index(x: &Tensor, indices: &[Option<&Tensor>]) -> Result<Tensor> {
    let indexed = Indexed::new("index", x.dims(), indices)?;
    take("index", x, &indexed.offsets, indexed.block, &indexed.shape)
}
