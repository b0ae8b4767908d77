//! Elements put where a mask, flat positions, rows or a diagonal say.

use super::index::{contiguous_strides, positions};
use super::kernel::broadcast_shape;
use super::{
    diagonal, full, gather, index_put, nonzero, scatter_reduce, to_bool, to_dtype, where_cond,
    Gathering,
};
use candle::{bail, DType, Result, Tensor};

/// `x` with the places where `mask` is not zero replaced by the first elements of `source`, in order.
pub fn masked_scatter(x: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    let shape = broadcast_shape(x.dims(), mask.dims())?;
    let mask = to_bool(&mask.broadcast_as(&*shape)?)?.flatten_all()?;
    let places = nonzero(&mask)?.squeeze(1)?;
    let flat = x.broadcast_as(&*shape)?.flatten_all()?;
    let count = places.elem_count();
    if source.elem_count() < count {
        bail!(
            "masked_scatter: {} values for {count} places",
            source.elem_count()
        )
    }
    let values = source.flatten_all()?.narrow(0, 0, count)?;
    index_put(&flat, &[Some(&places)], &values, false)?.reshape(shape)
}

/// `x` with the elements at flat positions replaced by those of `source`, or added to where `accumulate`.
pub fn put(x: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<Tensor> {
    let (flat, index) = (x.flatten_all()?, index.flatten_all()?);
    index_put(&flat, &[Some(&index)], &source.flatten_all()?, accumulate)?.reshape(x.shape())
}

/// `x` with the rows of `source` gathered into those that `index` names along `dim`.
pub fn index_reduce(
    x: &Tensor,
    dim: usize,
    index: &Tensor,
    source: &Tensor,
    gathering: Gathering,
    include_self: bool,
) -> Result<Tensor> {
    if x.rank() == 0 {
        let (x, source) = (x.reshape(1)?, source.reshape(1)?);
        return index_reduce(&x, 0, index, &source, gathering, include_self)?.reshape(());
    }
    let mut shape = vec![1; x.rank()];
    shape[dim] = index.elem_count();
    let index = index.reshape(shape)?.broadcast_as(source.shape())?;
    scatter_reduce(x, dim, &index, source, gathering, include_self)
}

/// `x` with a diagonal of two of its dimensions replaced by `src`.
pub fn diagonal_scatter(
    x: &Tensor,
    src: &Tensor,
    offset: i64,
    dim1: usize,
    dim2: usize,
) -> Result<Tensor> {
    let count = x.elem_count();
    let flat = Tensor::arange(0, count as i64, x.device())?.reshape(x.shape())?;
    let places = diagonal(&flat, offset, dim1, dim2)?;
    if places.dims() != src.dims() {
        bail!(
            "diagonal_scatter: {:?} for a diagonal of shape {:?}",
            src.dims(),
            places.dims()
        )
    }
    put(x, &places, src, false)
}

/// The indices of the first `size` elements that are not zero, a row each (i64), and `fill` behind them.
pub fn nonzero_static(x: &Tensor, size: usize, fill: f64) -> Result<Tensor> {
    let found = nonzero(x)?;
    let count = found.dim(0)?;
    if count >= size {
        return found.narrow(0, 0, size);
    }
    let rest = full(&[size - count, x.rank()], fill, DType::I64, x.device())?;
    Tensor::cat(&[found, rest], 0)
}

/// Rows and columns (i64) of the elements on and below a diagonal, or on and above it where `upper`.
pub fn triangle_indices(
    rows: usize,
    columns: usize,
    offset: i64,
    upper: bool,
    device: &candle::Device,
) -> Result<Tensor> {
    let inside = |i: &i64, j: &i64| {
        if upper {
            j - i >= offset
        } else {
            j - i <= offset
        }
    };
    let pairs = (0..rows as i64).flat_map(|i| (0..columns as i64).map(move |j| (i, j)));
    let (down, across): (Vec<_>, Vec<_>) = pairs.filter(|(i, j)| inside(i, j)).unzip();
    let count = down.len();
    Tensor::from_vec([down, across].concat(), (2, count), device)
}

/// The elements of `x` at flat positions, which may count from the end.
pub fn take(x: &Tensor, index: &Tensor) -> Result<Tensor> {
    let flat = x.flatten_all()?;
    let places = positions("take", index, flat.elem_count(), true)?;
    let places = places.into_iter().map(|i| i as i64).collect::<Vec<_>>();
    let places = Tensor::from_vec(places, index.elem_count(), x.device())?;
    gather(&flat, 0, &places)?.reshape(index.shape())
}

/// The elements of `x` where `mask` is not zero, in order.
pub fn masked_select(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let shape = broadcast_shape(x.dims(), mask.dims())?;
    let (x, mask) = (x.broadcast_as(&*shape)?, mask.broadcast_as(&*shape)?);
    super::index(&x, &[Some(&to_bool(&mask)?)])
}

/// The distances of order `p` between all pairs of rows, as a vector.
pub fn pdist(x: &Tensor, p: f64) -> Result<Tensor> {
    let (rows, _) = x.dims2()?;
    let pairs = triangle_indices(rows, rows, 1, true, x.device())?;
    let row = |i: usize| super::index_select(x, 0, &pairs.get(i)?);
    super::norm(&super::sub(&row(0)?, &row(1)?)?, p, &[1], false)
}

/// Sub-tensors along `dim` whose norm of order `p` is above `most` are scaled down to it.
pub fn renorm(x: &Tensor, p: f64, dim: usize, most: f64) -> Result<Tensor> {
    let others = (0..x.rank()).filter(|&d| d != dim).collect::<Vec<_>>();
    let wide = match x.dtype() {
        DType::F64 => x.clone(),
        _ => to_dtype(x, DType::F32)?,
    };
    let norms = super::norm(&wide, p, &others, true)?;
    let scale = super::rdiv(most, &super::add_scalar(&norms, 1e-7)?)?;
    let one = full(&[], 1.0, wide.dtype(), x.device())?;
    let factor = where_cond(&super::gt_scalar(&norms, most)?, &scale, &one)?;
    to_dtype(&super::mul(&wide, &factor)?, x.dtype())
}

/// The places of a flat tensor that a view with strides shows.
pub fn as_strided(x: &Tensor, size: &[usize], stride: &[usize], offset: usize) -> Result<Tensor> {
    let logical = contiguous_strides(size);
    let count = size.iter().product::<usize>();
    let place = |i: usize| {
        let steps = (0..size.len()).map(|d| i / logical[d] % size[d] * stride[d]);
        (offset + steps.sum::<usize>()) as i64
    };
    let places = (0..count).map(place).collect::<Vec<_>>();
    let places = Tensor::from_vec(places, count, x.device())?;
    gather(&x.flatten_all()?, 0, &places)?.reshape(size)
}
