//! The loops of reductions: any dimensions, any state that elements are gathered in.

use super::kernel::{fill_slice, vectorised, with_slice};
use candle::{bail, Result, Tensor, WithDType};

/// Elements that are gathered side by side, for the CPU's vector units: so many that the compiler
/// makes a vectorised loop of them, rather than a long row of scalar instructions.
pub(crate) const LANES: usize = 128;
/// Columns that are gathered side by side.
const COLUMNS: usize = 256;
/// A longer row is cut into pieces of this length, for several threads.
const PIECE: usize = 1 << 14;

/// A tensor seen as (outer, reduced, inner), and the shape that remains.
pub(crate) struct Reduction {
    x: Tensor,
    outer: usize,
    pub(crate) reduced: usize,
    inner: usize,
    shape: Vec<usize>,
}

impl Reduction {
    pub(crate) fn new(op: &str, x: &Tensor, dims: &[usize], keepdim: bool) -> Result<Self> {
        let rank = x.rank();
        let mut gone = vec![false; rank];
        for &dim in dims {
            // A number can be reduced along its "dimension 0".
            match gone.get_mut(dim) {
                Some(gone) => *gone = true,
                None if rank == 0 && dim == 0 => {}
                None => bail!("{op}: no dimension {dim} in shape {:?}", x.dims()),
            }
        }
        let size = |d: usize| x.dims()[d];
        let shape = (0..rank)
            .filter(|&d| keepdim || !gone[d])
            .map(|d| if gone[d] { 1 } else { size(d) })
            .collect();
        let kept = (0..rank).filter(|&d| !gone[d]);
        let lost = (0..rank).filter(|&d| gone[d]);
        let first = gone.iter().position(|&g| g).unwrap_or(rank);
        let end = gone.iter().rposition(|&g| g).map_or(rank, |d| d + 1);
        let reduced = lost.clone().map(size).product();
        if gone[first..end].iter().all(|&g| g) {
            return Ok(Self {
                outer: (0..first).map(size).product(),
                inner: (end..rank).map(size).product(),
                x: x.clone(),
                reduced,
                shape,
            });
        }
        Ok(Self {
            outer: kept.clone().map(size).product(),
            inner: 1,
            x: x.permute(kept.chain(lost).collect::<Vec<_>>())?,
            reduced,
            shape,
        })
    }

    pub(crate) fn refuse_empty(&self, op: &str) -> Result<()> {
        if self.reduced == 0 && self.outer * self.inner > 0 {
            bail!("{op}: no elements to choose from")
        }
        Ok(())
    }

    /// Gathers elements with `step` from `init` on; states of parts are joined with `merge`.
    pub(crate) fn run<T: WithDType, A: Copy + Send + Sync, O: WithDType>(
        &self,
        init: A,
        step: impl Fn(A, T) -> A + Sync,
        merge: impl Fn(A, A) -> A + Sync,
        finish: impl Fn(A) -> O + Sync,
    ) -> Result<Tensor> {
        let (reduced, inner) = (self.reduced, self.inner);
        let mut out = vec![O::from_f64(0.0); self.outer * inner];
        with_slice(&self.x, |data: &[T]| {
            if inner == 1 && out.len() == 1 {
                out[0] = finish(reduce_long_row(data, init, &step, &merge));
                return Ok(());
            }
            fill_slice(&mut out, 1, reduced, |start, out| {
                if inner == 1 {
                    for (i, o) in out.iter_mut().enumerate() {
                        let row = &data[(start + i) * reduced..(start + i + 1) * reduced];
                        *o = finish(reduce_row(row, init, &step, &merge));
                    }
                } else {
                    self.reduce_columns(data, start, out, init, &step, &finish);
                }
            });
            Ok(())
        })?;
        Tensor::from_vec(out, &*self.shape, self.x.device())
    }

    /// `f` of all elements that are reduced together, at once.
    pub(crate) fn by_rows<T: WithDType>(&self, f: impl Fn(&[T]) -> T + Sync) -> Result<Tensor> {
        let rows = self.x.reshape((self.outer, self.reduced, self.inner))?;
        let mut out = vec![T::from_f64(0.0); self.outer * self.inner];
        with_slice(&rows.transpose(1, 2)?, |data: &[T]| {
            fill_slice(&mut out, 1, self.reduced, |start, out| {
                for (i, o) in out.iter_mut().enumerate() {
                    *o = f(&data[(start + i) * self.reduced..][..self.reduced]);
                }
            });
            Ok(())
        })?;
        Tensor::from_vec(out, &*self.shape, self.x.device())
    }

    fn reduce_columns<T: WithDType, A: Copy, O>(
        &self,
        data: &[T],
        start: usize,
        out: &mut [O],
        init: A,
        step: &impl Fn(A, T) -> A,
        finish: &impl Fn(A) -> O,
    ) {
        let mut done = 0;
        while done < out.len() {
            let (outer, column) = ((start + done) / self.inner, (start + done) % self.inner);
            let width = (self.inner - column).min(out.len() - done).min(COLUMNS);
            let mut states = [init; COLUMNS];
            let states = &mut states[..width];
            let first = outer * self.reduced * self.inner + column;
            vectorised(
                #[inline(always)]
                || {
                    for r in 0..self.reduced {
                        let from = first + r * self.inner;
                        let row = &data[from..from + width];
                        for (state, &v) in states.iter_mut().zip(row) {
                            *state = step(*state, v);
                        }
                    }
                },
            );
            for (o, &state) in out[done..done + width].iter_mut().zip(states.iter()) {
                *o = finish(state);
            }
            done += width;
        }
    }
}

fn reduce_long_row<T: WithDType, A: Copy + Send + Sync>(
    row: &[T],
    init: A,
    step: &(impl Fn(A, T) -> A + Sync),
    merge: &(impl Fn(A, A) -> A + Sync),
) -> A {
    let mut pieces = vec![init; row.len().div_ceil(PIECE)];
    fill_slice(&mut pieces, 1, PIECE, |start, pieces| {
        for (i, piece) in pieces.iter_mut().enumerate() {
            let from = (start + i) * PIECE;
            let row = &row[from..row.len().min(from + PIECE)];
            *piece = reduce_row(row, init, step, merge);
        }
    });
    pieces.into_iter().fold(init, merge)
}

fn reduce_row<T: Copy, A: Copy>(
    row: &[T],
    init: A,
    step: &impl Fn(A, T) -> A,
    merge: &impl Fn(A, A) -> A,
) -> A {
    vectorised(
        #[inline(always)]
        || {
            let mut lanes = [init; LANES];
            for group in row.chunks(LANES) {
                for (lane, &v) in lanes.iter_mut().zip(group) {
                    *lane = step(*lane, v);
                }
            }
            merge_lanes(lanes, merge)
        },
    )
}

#[inline(always)]
pub(crate) fn merge_lanes<A: Copy>(mut lanes: [A; LANES], merge: &impl Fn(A, A) -> A) -> A {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        let (left, right) = lanes.split_at_mut(width);
        for (left, &right) in left.iter_mut().zip(right.iter()) {
            *left = merge(*left, right);
        }
    }
    lanes[0]
}
