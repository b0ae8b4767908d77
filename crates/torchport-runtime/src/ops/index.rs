//! Reading parts of tensors: slices, rows, and elements by index.

use super::cast::Element;
use super::kernel::{fill, for_dtype, with_slice};
use super::strided::{copy_strided, signed_strides, Walk};
use super::to_dtype;
use candle::{bail, DType, Result, Tensor};

/// Where a Python slice begins in a dimension of `size`, and how many elements it has.
pub(crate) fn slice_bounds(size: usize, start: i64, end: i64, step: usize) -> (usize, usize) {
    let size = size as i64;
    let bound = |i: i64| if i < 0 { i.saturating_add(size) } else { i }.clamp(0, size) as usize;
    let (start, end) = (bound(start), bound(end));
    (start, end.saturating_sub(start).div_ceil(step))
}

/// `x[..., start:end:step, ...]` at `dim`, by Python's rules.
pub fn slice(x: &Tensor, dim: usize, start: i64, end: i64, step: usize) -> Result<Tensor> {
    if step == 0 {
        bail!("slice: the step is zero")
    }
    let (first, len) = slice_bounds(x.dim(dim)?, start, end, step);
    if step == 1 {
        return narrow(x, dim, first, len);
    }
    let mut dims = x.dims().to_vec();
    let mut strides = signed_strides(x);
    let shift = first as isize * strides[dim];
    dims[dim] = len;
    strides[dim] *= step as isize;
    copy_strided("slice", x, &dims, &strides, shift)
}

/// `x.narrow(dim, first, len)`, which in candle is a view that may begin behind the storage where nothing is in it, and
/// then cannot be read.
pub fn narrow(x: &Tensor, dim: usize, first: usize, len: usize) -> Result<Tensor> {
    let part = x.narrow(dim, first, len)?;
    match part.elem_count() {
        0 => Tensor::zeros(part.shape(), x.dtype(), x.device()),
        _ => Ok(part),
    }
}

/// `x[..., index, ...]` at `dim`; the dimension goes.
pub fn select(x: &Tensor, dim: usize, index: i64) -> Result<Tensor> {
    narrow(x, dim, wrap_index("select", index, x.dim(dim)?)?, 1)?.squeeze(dim)
}

pub(crate) fn wrap_index(op: &str, index: i64, size: usize) -> Result<usize> {
    let wrapped = if index < 0 {
        index + size as i64
    } else {
        index
    };
    match usize::try_from(wrapped) {
        Ok(i) if i < size => Ok(i),
        _ => bail!("{op}: index {index} is out of range for a dimension of size {size}"),
    }
}

/// Indices of any integer dtype as positions in a dimension of `size`.
pub(crate) fn positions(
    op: &str,
    index: &Tensor,
    size: usize,
    negative: bool,
) -> Result<Vec<usize>> {
    if !index.dtype().is_int() {
        bail!("{op}: indices of dtype {}", index.dtype().as_str())
    }
    with_slice(&to_dtype(index, DType::I64)?, |values: &[i64]| {
        values
            .iter()
            .map(|&i| match i {
                i if i < 0 && !negative => {
                    bail!("{op}: index {i} is out of range for a dimension of size {size}")
                }
                i => wrap_index(op, i, size),
            })
            .collect()
    })
}

/// The blocks of `block` elements of `x` that begin at `offsets`, in a tensor of `shape`.
pub(crate) fn take(
    op: &str,
    x: &Tensor,
    offsets: &[usize],
    block: usize,
    shape: &[usize],
) -> Result<Tensor> {
    fn blocks<T: Element>(
        x: &Tensor,
        offsets: &[usize],
        block: usize,
        shape: &[usize],
    ) -> Result<Tensor> {
        let out = with_slice(x, |data: &[T]| {
            Ok(fill(
                offsets.len() * block,
                block,
                |start, out: &mut [T]| {
                    let offsets = &offsets[start / block..];
                    if block == 1 {
                        out.iter_mut().zip(offsets).for_each(|(o, &i)| *o = data[i]);
                    } else {
                        for (out, &i) in out.chunks_mut(block).zip(offsets) {
                            out.copy_from_slice(&data[i..i + block]);
                        }
                    }
                },
            ))
        })?;
        Tensor::from_vec(out, shape, x.device())
    }
    if shape.iter().product::<usize>() == 0 {
        return super::full(shape, 0.0, x.dtype(), x.device());
    }
    for_dtype!(op, x.dtype(), T => blocks::<T>(x, offsets, block, shape))
}

/// The rows of `x` along `dim` that a vector of indices names.
pub fn index_select(x: &Tensor, dim: usize, index: &Tensor) -> Result<Tensor> {
    if index.rank() > 1 {
        bail!("index_select: the index has shape {:?}", index.dims())
    }
    if x.rank() == 0 {
        return index_select(&x.reshape(1)?, 0, index)?.reshape(());
    }
    let mut shape = x.dims().to_vec();
    shape[dim] = index.elem_count();
    take_rows("index_select", x, dim, index, &shape)
}

fn take_rows(op: &str, x: &Tensor, dim: usize, index: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let dims = x.dims();
    let rows = positions(op, index, dims[dim], false)?;
    let outer: usize = dims[..dim].iter().product();
    let inner: usize = dims[dim + 1..].iter().product();
    let offsets = (0..outer)
        .flat_map(|o| rows.iter().map(move |&row| (o * dims[dim] + row) * inner))
        .collect::<Vec<_>>();
    take(op, x, &offsets, inner, shape)
}

/// The rows of `weight` that `ids` name; ids out of range are an error.
pub fn embedding(weight: &Tensor, ids: &Tensor) -> Result<Tensor> {
    let (_, width) = weight.dims2()?;
    let shape = [ids.dims(), &[width]].concat();
    take_rows("embedding", weight, 0, ids, &shape)
}

/// For each element of `index`, the offset in a contiguous tensor of shape `dims` of the element at
/// the same place, but at the index along `dim`.
pub(crate) fn element_offsets(
    op: &str,
    dims: &[usize],
    dim: usize,
    index: &Tensor,
) -> Result<Vec<usize>> {
    if index.rank() != dims.len() {
        bail!(
            "{op}: an index of shape {:?} for a tensor of shape {dims:?}",
            index.dims()
        )
    }
    let fits = |(d, (&i, &n)): (usize, (&usize, &usize))| d == dim || i <= n;
    if index.elem_count() > 0 && !index.dims().iter().zip(dims).enumerate().all(fits) {
        bail!(
            "{op}: an index of shape {:?} is too large for {dims:?}",
            index.dims()
        )
    }
    let stride: usize = dims[dim + 1..].iter().product();
    let mut strides = contiguous_strides(dims);
    strides[dim] = 0;
    let strides = strides.iter().map(|&s| [s as isize]).collect::<Vec<_>>();
    let walk = Walk::new(index.dims(), &strides, [0]);
    let [step] = walk.inner_strides();
    let mut offsets = positions(op, index, dims[dim], false)?;
    walk.segments(0, index.elem_count(), |range, [first]| {
        for (i, offset) in offsets[range].iter_mut().enumerate() {
            *offset = *offset * stride + first + i * step as usize;
        }
    });
    Ok(offsets)
}

pub(crate) fn contiguous_strides(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for d in (1..dims.len()).rev() {
        strides[d - 1] = strides[d] * dims[d];
    }
    strides
}

/// `torch.gather(x, dim, index)`.
pub fn gather(x: &Tensor, dim: usize, index: &Tensor) -> Result<Tensor> {
    if x.rank() == 0 {
        let flat = index.reshape(index.elem_count())?;
        return index_select(&x.reshape(1)?, 0, &flat)?.reshape(index.shape());
    }
    let offsets = element_offsets("gather", x.dims(), dim, index)?;
    take("gather", x, &offsets, 1, index.dims())
}
