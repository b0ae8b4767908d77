//! Matrix products on slices, in blocks that fit the caches.
//!
//! The right operand is copied block by block into the order that the innermost loop reads it in;
//! who asks for a product says how, so that a convolution can unfold its patches straight into it.
//! Products are added up in runs, and the runs one after the other, which loses less than one sum.

use super::gemv::gemv;
use super::matrix::{Columns, Mat, Target};
use super::microkernel::{kernels, Kernels, LARGEST_TILE, VECTORS};
use super::real::Real;
use gemm::Parallelism;
use rayon::prelude::*;
use std::ops::Range;

/// Sizes of a product `(m, k) · (k, n)`.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

/// `target (+)= lhs · rhs`.
///
/// # Safety
/// `target` has to be valid for `m` rows of `n` elements that no other thread touches.
pub(crate) unsafe fn gemm<T: Real>(
    sizes: Sizes,
    target: Target<T>,
    lhs: Mat<T>,
    rhs: Mat<T>,
    parallel: bool,
) {
    let Sizes { m, n, k } = sizes;
    assert!(lhs.holds(m, k) && rhs.holds(k, n), "matrix out of bounds");
    // A few rows by many columns: read the many in place and copy the few.
    if m < n && m <= 32 {
        let sizes = Sizes { m: n, n: m, k };
        return multiply(
            sizes,
            target.transposed(),
            rhs.transposed(),
            &lhs.transposed(),
            parallel,
        );
    }
    multiply(sizes, target, lhs, &rhs, parallel);
}

/// `target (+)= lhs · rhs` with columns of `rhs` that are made on demand.
///
/// # Safety
/// `target` has to be valid for `m` rows of `n` elements that no other thread touches.
pub(crate) unsafe fn multiply<T: Real>(
    sizes: Sizes,
    target: Target<T>,
    lhs: Mat<T>,
    rhs: &impl Columns<T>,
    parallel: bool,
) {
    let Sizes { m, n, k } = sizes;
    assert!(lhs.holds(m, k), "matrix out of bounds");
    if m * n * k == 0 {
        let zeros = vec![T::ZERO; n];
        return (0..m).for_each(|row| target.from(row, 0).put(&zeros, n.max(1), 1, n));
    }
    if n == 1 {
        let mut column = vec![T::ZERO; k];
        rhs.copy(0..k, 0, 1, 1, &mut column);
        if gemv(m, target, lhs, &column, parallel) {
            return;
        }
    }
    let threads = rayon::current_num_threads();
    if !parallel || threads == 1 || m * n * k < PARALLEL_FROM {
        return block(sizes, target, lhs, rhs, 0..n);
    }
    if n >= threads * SHARED_COLUMNS {
        let width = n.div_ceil(threads).next_multiple_of(SHARED_COLUMNS);
        (0..n.div_ceil(width)).into_par_iter().for_each(|part| {
            let columns = part * width..n.min((part + 1) * width);
            block(sizes, target, lhs, rhs, columns);
        });
        return;
    }
    let height = m.div_ceil(threads).next_multiple_of(8);
    (0..m.div_ceil(height)).into_par_iter().for_each(|part| {
        let row = part * height;
        let sizes = Sizes {
            m: height.min(m - row),
            n,
            k,
        };
        block(sizes, target.from(row, 0), lhs.from(row, 0), rhs, 0..n);
    });
}

/// With fewer multiplications than this, waking other threads costs more than it saves.
const PARALLEL_FROM: usize = 1 << 18;
/// Columns are shared out between threads in multiples of this.
const SHARED_COLUMNS: usize = 48;
/// The most elements of `rhs` that are copied at a time.
const COPIED: usize = 1 << 16;

/// Products with few columns and sums that are not long are added up in short runs: PyTorch is more exact there.
const FEW_COLUMNS: usize = 8;
const LONG_SUM: usize = 4096;

/// The length of the runs in which `k` products are added up.
fn run_length(k: usize, n: usize) -> usize {
    let longest = match n <= FEW_COLUMNS && k <= LONG_SUM {
        true => 48,
        false => (k / 8).clamp(160, 256),
    };
    k.div_ceil(k.div_ceil(longest))
}

/// The columns `columns` of a product, on this thread.
unsafe fn block<T: Real>(
    Sizes { m, n, k }: Sizes,
    target: Target<T>,
    lhs: Mat<T>,
    rhs: &impl Columns<T>,
    columns: Range<usize>,
) {
    let kernels = kernels::<T>();
    let tile = kernels.map_or(1, |kernels| kernels.lanes * VECTORS);
    let run = run_length(k, n);
    let width = (COPIED / run / tile * tile)
        .max(tile)
        .min(columns.len().next_multiple_of(tile));
    let mut copied = vec![T::ZERO; run * width];
    for col in columns.clone().step_by(width) {
        let width = width.min(columns.end - col);
        for start in (0..k).step_by(run) {
            let rows = start..k.min(start + run);
            let accumulate = target.accumulate || start > 0;
            let target = Target {
                accumulate,
                ..target.from(0, col)
            };
            let lhs = lhs.from(0, start);
            match kernels {
                Some(kernels) => {
                    copy_panels(kernels, rhs, rows.clone(), col, width, &mut copied);
                    multiply_panels(kernels, m, rows.len(), width, target, lhs, &copied);
                }
                None => {
                    rhs.copy(rows.clone(), col, width, width, &mut copied);
                    let rhs = Mat::new(&copied, width, 1);
                    portable(
                        Sizes {
                            m,
                            n: width,
                            k: rows.len(),
                        },
                        target,
                        lhs,
                        rhs,
                    );
                }
            }
        }
    }
}

/// Copies columns in panels, each as wide as a tile: the last as wide as its vectors have to be.
fn copy_panels<T: Real>(
    kernels: &Kernels<T>,
    rhs: &impl Columns<T>,
    rows: Range<usize>,
    col: usize,
    width: usize,
    copied: &mut [T],
) {
    let tile = kernels.lanes * VECTORS;
    for first in (0..width).step_by(tile) {
        let width = tile.min(width - first);
        let stride = width.next_multiple_of(kernels.lanes);
        rhs.copy(
            rows.clone(),
            col + first,
            width,
            stride,
            &mut copied[first * rows.len()..],
        );
    }
}

unsafe fn multiply_panels<T: Real>(
    kernels: &Kernels<T>,
    m: usize,
    k: usize,
    width: usize,
    target: Target<T>,
    lhs: Mat<T>,
    copied: &[T],
) {
    let tile = kernels.lanes * VECTORS;
    let mut sums = [T::ZERO; LARGEST_TILE];
    let mut row = 0;
    while row < m {
        let size = kernels.by_rows.len().min((m - row).ilog2() as usize + 1);
        let (rows, by_vectors) = (1 << (size - 1), &kernels.by_rows[size - 1]);
        let values = lhs.from(row, 0).values.as_ptr();
        for first in (0..width).step_by(tile) {
            let cols = tile.min(width - first);
            let vectors = cols.div_ceil(kernels.lanes);
            let panel = copied[first * k..].as_ptr();
            by_vectors[vectors - 1](
                k,
                values,
                lhs.row_stride,
                lhs.col_stride,
                panel,
                sums.as_mut_ptr(),
            );
            target
                .from(row, first)
                .put(&sums, vectors * kernels.lanes, rows, cols);
        }
        row += rows;
    }
}

/// The `gemm` crate, for machines without kernels here.
unsafe fn portable<T: Real>(Sizes { m, n, k }: Sizes, target: Target<T>, lhs: Mat<T>, rhs: Mat<T>) {
    gemm::gemm(
        m,
        n,
        k,
        target.values.offset(0),
        target.col_stride as isize,
        target.row_stride as isize,
        target.accumulate,
        lhs.values.as_ptr(),
        lhs.col_stride as isize,
        lhs.row_stride as isize,
        rhs.values.as_ptr(),
        rhs.col_stride as isize,
        rhs.row_stride as isize,
        if target.accumulate { T::ONE } else { T::ZERO },
        T::ONE,
        false,
        false,
        false,
        Parallelism::None,
    )
}
