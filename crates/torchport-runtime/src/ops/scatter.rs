//! Copies of tensors in which some elements are replaced or added to.

use super::advanced_index::Indexed;
use super::cast::Element;
use super::index::{element_offsets, slice_bounds, wrap_index};
use super::kernel::{broadcast_shape, fill, for_dtype, vectorised, with_slice, with_storage};
use super::strided::Walk;
use super::{full, to_bool, to_dtype};
use candle::{bail, DType, Result, Tensor};
use std::hint::select_unpredictable;
use std::ops::Range;

/// A copy of `x` with the blocks at `offsets` replaced by those of `values`, in order, or summed.
fn put(
    op: &str,
    x: &Tensor,
    offsets: &[usize],
    block: usize,
    values: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    fn blocks<T: Element>(
        x: &Tensor,
        offsets: &[usize],
        block: usize,
        values: &Tensor,
        accumulate: bool,
    ) -> Result<Tensor> {
        let mut out = with_slice(x, |data: &[T]| Ok(data.to_vec()))?;
        with_slice(values, |values: &[T]| {
            for (&i, values) in offsets.iter().zip(values.chunks(block.max(1))) {
                let out = &mut out[i..i + block];
                if accumulate {
                    out.iter_mut()
                        .zip(values)
                        .for_each(|(o, &v)| *o = o.plus(v));
                } else {
                    out.copy_from_slice(values);
                }
            }
            Ok(())
        })?;
        Tensor::from_vec(out, x.shape(), x.device())
    }
    if x.dtype() != values.dtype() {
        let (x, values) = (x.dtype().as_str(), values.dtype().as_str());
        bail!("{op}: values of dtype {values} for a tensor of dtype {x}")
    }
    for_dtype!(op, x.dtype(), T => blocks::<T>(x, offsets, block, values, accumulate))
}

/// `x` with `x[indices]` replaced by `values`, or `values` added where `accumulate`.
pub fn index_put(
    x: &Tensor,
    indices: &[Option<&Tensor>],
    values: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    let Indexed {
        offsets,
        block,
        shape,
    } = Indexed::new("index_put", x.dims(), indices)?;
    let values = values.broadcast_as(&*shape)?;
    put("index_put", x, &offsets, block, &values, accumulate)
}

/// `x` with `x[..., start:end:step, ...]` at `dim` replaced by `src`.
pub fn slice_scatter(
    x: &Tensor,
    src: &Tensor,
    dim: usize,
    start: i64,
    end: i64,
    step: usize,
) -> Result<Tensor> {
    let (first, len) = slice_bounds(x.dim(dim)?, start, end, step.max(1));
    let mut shape = x.dims().to_vec();
    shape[dim] = len;
    if step == 0 || src.dims() != shape {
        bail!(
            "slice_scatter: {:?} does not fit into {shape:?}",
            src.dims()
        )
    }
    let outer: usize = x.dims()[..dim].iter().product();
    let inner: usize = x.dims()[dim + 1..].iter().product();
    let size = x.dims()[dim];
    let offsets = (0..outer)
        .flat_map(|o| (0..len).map(move |i| (o * size + first + i * step) * inner))
        .collect::<Vec<_>>();
    put("slice_scatter", x, &offsets, inner, src, false)
}

/// `x` with `x[..., index, ...]` at `dim` replaced by `src`.
pub fn select_scatter(x: &Tensor, src: &Tensor, dim: usize, index: i64) -> Result<Tensor> {
    let index = wrap_index("select_scatter", index, x.dim(dim)?)? as i64;
    slice_scatter(x, &src.unsqueeze(dim)?, dim, index, index + 1, 1)
}

fn scatter_with(
    op: &str,
    x: &Tensor,
    dim: usize,
    index: &Tensor,
    src: &Tensor,
    accumulate: bool,
) -> Result<Tensor> {
    if x.rank() == 0 {
        let (x, index, src) = (x.reshape(1)?, index.reshape(1)?, src.reshape(1)?);
        return scatter_with(op, &x, 0, &index, &src, accumulate)?.reshape(());
    }
    let offsets = element_offsets(op, x.dims(), dim, index)?;
    let mut values = src.clone();
    for (d, &len) in index.dims().iter().enumerate() {
        values = values.narrow(d, 0, len)?;
    }
    put(op, x, &offsets, 1, &values, accumulate)
}

/// `x` with the elements that `index` names along `dim` replaced by those of `src`.
pub fn scatter(x: &Tensor, dim: usize, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scatter_with("scatter", x, dim, index, src, false)
}

/// `x` with the elements that `index` names along `dim` replaced by a number.
pub fn scatter_value(x: &Tensor, dim: usize, index: &Tensor, value: f64) -> Result<Tensor> {
    let src = full(&[], value, x.dtype(), x.device())?.broadcast_as(index.shape())?;
    scatter_with("scatter", x, dim, index, &src, false)
}

/// `x` with the elements of `src` added to those that `index` names along `dim`.
pub fn scatter_add(x: &Tensor, dim: usize, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    if x.dtype() == src.dtype() && matches!(x.dtype(), DType::F16 | DType::BF16) {
        let (wide, src) = (to_dtype(x, DType::F32)?, to_dtype(src, DType::F32)?);
        return to_dtype(&scatter_add(&wide, dim, index, &src)?, x.dtype());
    }
    scatter_with("scatter_add", x, dim, index, src, true)
}

/// `x` with a number where `mask` is not zero; both are broadcast.
pub fn masked_fill(x: &Tensor, mask: &Tensor, value: f64) -> Result<Tensor> {
    where_cond(mask, &full(&[], value, x.dtype(), x.device())?, x)
}

/// `a` where `condition` is not zero, and else `b`; all three are broadcast.
pub fn where_cond(condition: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.dtype() != b.dtype() {
        bail!(
            "where: the dtypes {} and {} differ",
            a.dtype().as_str(),
            b.dtype().as_str()
        )
    }
    let shape = broadcast_shape(&broadcast_shape(a.dims(), b.dims())?, condition.dims())?;
    let condition = match condition.dtype() {
        DType::U8 => condition.clone(),
        _ => to_bool(condition)?,
    };
    let condition = condition.broadcast_as(&*shape)?;
    let (a, b) = (a.broadcast_as(&*shape)?, b.broadcast_as(&*shape)?);
    for_dtype!("where", a.dtype(), T => choose::<T>(&condition, &a, &b))
}

fn choose<T: Element>(condition: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let out = with_storage(condition, |chosen: &[u8], lc| {
        with_storage(a, |left: &[T], la| {
            with_storage(b, |right: &[T], lb| {
                let walk = Walk::over(condition.dims(), [lc, la, lb]);
                let strides = walk.inner_strides();
                Ok(fill(condition.elem_count(), 1, |start, out: &mut [T]| {
                    walk.segments(start, out.len(), |range, [c, a, b]| {
                        let operands = (&chosen[c..], &left[a..], &right[b..]);
                        choose_run(&mut out[range], operands, strides);
                    })
                }))
            })
        })
    })?;
    Tensor::from_vec(out, condition.shape(), a.device())
}

fn choose_run<T: Copy>(out: &mut [T], (chosen, a, b): (&[u8], &[T], &[T]), strides: [isize; 3]) {
    let len = out.len();
    match strides {
        [1, 1, 1] => {
            let pairs = a[..len].iter().zip(&b[..len]);
            vectorised(
                #[inline(always)]
                || {
                    for ((o, &c), (&a, &b)) in out.iter_mut().zip(chosen).zip(pairs) {
                        *o = select_unpredictable(c != 0, a, b);
                    }
                },
            )
        }
        [1, 0, 1] => {
            let a = a[0];
            vectorised(
                #[inline(always)]
                || {
                    for ((o, &c), &b) in out.iter_mut().zip(chosen).zip(&b[..len]) {
                        *o = select_unpredictable(c != 0, a, b);
                    }
                },
            )
        }
        [1, 1, 0] => {
            let b = b[0];
            vectorised(
                #[inline(always)]
                || {
                    for ((o, &c), &a) in out.iter_mut().zip(chosen).zip(&a[..len]) {
                        *o = select_unpredictable(c != 0, a, b);
                    }
                },
            )
        }
        strides => {
            let [sc, sa, sb] = strides.map(|s| s as usize);
            for (i, o) in out.iter_mut().enumerate() {
                *o = if chosen[i * sc] != 0 {
                    a[i * sa]
                } else {
                    b[i * sb]
                };
            }
        }
    }
}

/// `x` with zeros above the `k`-th diagonal of its last two dimensions.
pub fn tril(x: &Tensor, k: i64) -> Result<Tensor> {
    keep_part("tril", x, |row| 0..row + k + 1)
}

/// `x` with zeros below the `k`-th diagonal of its last two dimensions.
pub fn triu(x: &Tensor, k: i64) -> Result<Tensor> {
    keep_part("triu", x, |row| row + k..i64::MAX)
}

/// `x` with zeros but for the columns that `kept` tells for each row.
fn keep_part(op: &str, x: &Tensor, kept: impl Fn(i64) -> Range<i64> + Sync) -> Result<Tensor> {
    let [.., rows, columns] = *x.dims() else {
        bail!("{op}: needs two dimensions, got shape {:?}", x.dims())
    };
    if x.elem_count() == 0 {
        return Ok(x.clone());
    }
    for_dtype!(op, x.dtype(), T => {
        let out = with_slice(x, |data: &[T]| {
            Ok(fill(x.elem_count(), columns, |start, out: &mut [T]| {
                for (i, out) in out.chunks_mut(columns).enumerate() {
                    let from = start + i * columns;
                    let kept = kept((from / columns % rows) as i64);
                    let end = kept.end.clamp(0, columns as i64) as usize;
                    let first = (kept.start.max(0) as usize).min(end);
                    out[first..end].copy_from_slice(&data[from + first..from + end]);
                }
            }))
        })?;
        Tensor::from_vec(out, x.shape(), x.device())
    })
}
