//! Walking over tensors whose elements are not in order: dimensions are merged as far as the
//! strides allow, so that the inner loop is as long as it can be.

use super::kernel::{fill, for_dtype, with_storage};
use candle::{Layout, Result, Tensor, WithDType};
use std::ops::Range;

/// How `N` operands of one shape are walked together, in the order of the shape.
pub(crate) struct Walk<const N: usize> {
    dims: Vec<usize>,
    strides: Vec<[isize; N]>,
    start: [isize; N],
}

impl<const N: usize> Walk<N> {
    pub(crate) fn over(dims: &[usize], layouts: [&Layout; N]) -> Self {
        let strides = (0..dims.len())
            .map(|d| layouts.map(|layout| layout.stride()[d] as isize))
            .collect::<Vec<_>>();
        let start = layouts.map(|layout| layout.start_offset() as isize);
        Self::new(dims, &strides, start)
    }

    pub(crate) fn new(dims: &[usize], strides: &[[isize; N]], start: [isize; N]) -> Self {
        let mut walk = Walk {
            dims: Vec::with_capacity(dims.len()),
            strides: Vec::with_capacity(dims.len()),
            start,
        };
        for (&dim, &stride) in dims.iter().zip(strides) {
            walk.push(dim, stride);
        }
        if walk.dims.is_empty() {
            walk.dims.push(1);
            walk.strides.push([1; N]);
        }
        walk
    }

    fn push(&mut self, dim: usize, stride: [isize; N]) {
        if dim == 1 {
            return;
        }
        if let (Some(outer_dim), Some(outer)) = (self.dims.last_mut(), self.strides.last_mut()) {
            if (0..N).all(|n| outer[n] == stride[n] * dim as isize) {
                *outer_dim *= dim;
                *outer = stride;
                return;
            }
        }
        self.dims.push(dim);
        self.strides.push(stride);
    }

    fn last(&self) -> usize {
        self.dims.len() - 1
    }

    pub(crate) fn inner_strides(&self) -> [isize; N] {
        self.strides[self.last()]
    }

    /// Calls `f` for each run along the innermost dimension within the `len` elements from `start`:
    /// with its range, counted from `start`, and the operands' offsets of its first element.
    #[inline]
    pub(crate) fn segments(
        &self,
        start: usize,
        len: usize,
        mut f: impl FnMut(Range<usize>, [usize; N]),
    ) {
        if len == 0 {
            return;
        }
        let last = self.last();
        let inner = self.dims[last];
        let mut index = vec![0; last];
        let mut offset = self.start;
        let mut row = start / inner;
        for d in (0..last).rev() {
            index[d] = row % self.dims[d];
            row /= self.dims[d];
            (0..N).for_each(|n| offset[n] += index[d] as isize * self.strides[d][n]);
        }
        let mut within = start % inner;
        let mut done = 0;
        loop {
            let run = (inner - within).min(len - done);
            let first = std::array::from_fn(|n| {
                (offset[n] + within as isize * self.strides[last][n]) as usize
            });
            f(done..done + run, first);
            done += run;
            within = 0;
            if done == len {
                return;
            }
            self.advance(&mut index, &mut offset);
        }
    }

    #[inline]
    fn advance(&self, index: &mut [usize], offset: &mut [isize; N]) {
        for d in (0..index.len()).rev() {
            index[d] += 1;
            (0..N).for_each(|n| offset[n] += self.strides[d][n]);
            if index[d] < self.dims[d] {
                return;
            }
            (0..N).for_each(|n| offset[n] -= self.dims[d] as isize * self.strides[d][n]);
            index[d] = 0;
        }
    }
}

/// The same elements in order: a copy only where `x` is a view out of order.
pub fn contiguous(x: &Tensor) -> Result<Tensor> {
    if x.is_contiguous() {
        return Ok(x.clone());
    }
    if !x.device().is_cpu() {
        return x.contiguous();
    }
    let (dims, strides) = (x.dims(), signed_strides(x));
    copy_strided("contiguous", x, dims, &strides, 0)
}

pub(crate) fn signed_strides(x: &Tensor) -> Vec<isize> {
    x.stride().iter().map(|&s| s as isize).collect()
}

/// A copy of the elements of `x` seen with other dimensions and strides (negative ones too),
/// from `shift` elements after its first.
pub(crate) fn copy_strided(
    op: &str,
    x: &Tensor,
    dims: &[usize],
    strides: &[isize],
    shift: isize,
) -> Result<Tensor> {
    for_dtype!(op, x.dtype(), T => copy_elements::<T>(x, dims, strides, shift))
}

fn copy_elements<T: WithDType>(
    x: &Tensor,
    dims: &[usize],
    strides: &[isize],
    shift: isize,
) -> Result<Tensor> {
    let len = dims.iter().product();
    let out = with_storage(x, |data: &[T], layout| {
        let strides = strides.iter().map(|&s| [s]).collect::<Vec<_>>();
        let walk = Walk::new(dims, &strides, [layout.start_offset() as isize + shift]);
        if walk.is_transpose() {
            return Ok(copy_transposed(&walk, data, len));
        }
        let [stride] = walk.inner_strides();
        Ok(fill(len, 1, |start, out: &mut [T]| {
            walk.segments(start, out.len(), |range, [offset]| {
                copy_run(&mut out[range], data, offset, stride)
            })
        }))
    })?;
    Tensor::from_vec(out, dims, x.device())
}

#[inline]
fn copy_run<T: Copy>(out: &mut [T], data: &[T], offset: usize, stride: isize) {
    match stride {
        1 => out.copy_from_slice(&data[offset..offset + out.len()]),
        0 => out.fill(data[offset]),
        -1 => {
            let data = &data[offset + 1 - out.len()..=offset];
            for (o, &v) in out.iter_mut().zip(data.iter().rev()) {
                *o = v;
            }
        }
        _ => {
            for (i, o) in out.iter_mut().enumerate() {
                *o = data[(offset as isize + i as isize * stride) as usize];
            }
        }
    }
}

/// The side of the squares in which a matrix is transposed, so that both sides stay in the cache.
const TILE: usize = 16;

impl Walk<1> {
    /// Whether the last two dimensions are a matrix stored column by column.
    fn is_transpose(&self) -> bool {
        let last = self.last();
        last >= 1
            && self.strides[last - 1] == [1]
            && self.strides[last] != [1]
            && self.dims[last] >= TILE
            && self.dims[last - 1] >= TILE
    }
}

fn copy_transposed<T: WithDType>(walk: &Walk<1>, data: &[T], len: usize) -> Vec<T> {
    let last = walk.last();
    let columns = walk.dims[last];
    let [step] = walk.strides[last];
    let rows = row_starts(walk, len / columns);
    fill(len, columns, |start, out: &mut [T]| {
        let bands = out.chunks_mut(TILE * columns);
        for (band, rows) in bands.zip(rows[start / columns..].chunks(TILE)) {
            for first in (0..columns).step_by(TILE) {
                let width = TILE.min(columns - first);
                // Along the input into a small square first: its lines never fight for one place in
                // the cache, whatever the stride.
                let mut square = [[T::from_f64(0.0); TILE]; TILE];
                for (column, values) in (first..).zip(&mut square[..width]) {
                    for (v, &row) in values.iter_mut().zip(rows) {
                        *v = data[(row + column as isize * step) as usize];
                    }
                }
                for (r, out) in band.chunks_mut(columns).enumerate() {
                    for (o, values) in out[first..].iter_mut().zip(&square[..width]) {
                        *o = values[r];
                    }
                }
            }
        }
    })
}

/// Where each row of the innermost dimension begins.
fn row_starts(walk: &Walk<1>, rows: usize) -> Vec<isize> {
    let last = walk.last();
    let outer = Walk::new(&walk.dims[..last], &walk.strides[..last], walk.start);
    let [stride] = outer.inner_strides();
    let mut starts = vec![0; rows];
    outer.segments(0, rows, |range, [offset]| {
        for (start, i) in starts[range].iter_mut().zip(0..) {
            *start = offset as isize + i * stride;
        }
    });
    starts
}
