//! Matrix products on slices: the one place that calls the `gemm` crate, with care for the vector
//! shapes that it runs on one thread and sums naively.

use super::kernel::vectorised;
use super::real::{Real, SharedMut};
use gemm::Parallelism;
use rayon::prelude::*;

/// A strided matrix that is read.
#[derive(Clone, Copy)]
pub(crate) struct Mat<'a, T> {
    pub values: &'a [T],
    pub row_stride: usize,
    pub col_stride: usize,
}

impl<'a, T> Mat<'a, T> {
    pub(crate) fn new(values: &'a [T], row_stride: usize, col_stride: usize) -> Self {
        Self {
            values,
            row_stride,
            col_stride,
        }
    }

    fn transposed(self) -> Self {
        Self::new(self.values, self.col_stride, self.row_stride)
    }

    fn holds(&self, rows: usize, cols: usize) -> bool {
        rows == 0
            || cols == 0
            || (rows - 1) * self.row_stride + (cols - 1) * self.col_stride < self.values.len()
    }
}

/// Sizes of a product `(m, k) · (k, n)`.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

/// Where a product goes: a matrix with unit column stride, overwritten or added to.
#[derive(Clone, Copy)]
pub(crate) struct Target<T> {
    pub values: SharedMut<T>,
    pub start: usize,
    pub row_stride: usize,
    pub accumulate: bool,
}

/// `target (+)= lhs · rhs` on the current thread.
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
    if m == 1 && n == 1 {
        let products = (0..k).map(|i| {
            lhs.values[i * lhs.col_stride].widen() * rhs.values[i * rhs.row_stride].widen()
        });
        let out = &mut *target.values.offset(target.start);
        let start = if target.accumulate { out.widen() } else { 0.0 };
        *out = T::narrow(start + products.sum::<f64>());
        return;
    }
    if m == 1 && rhs.col_stride == 1 && k > 2 {
        return row_by_matrix(sizes, target, lhs, rhs, parallel);
    }
    if n == 1 && target.row_stride == 1 && lhs.row_stride == 1 && k > 2 {
        let sizes = Sizes { m: 1, n: m, k };
        return row_by_matrix(sizes, target, rhs.transposed(), lhs.transposed(), parallel);
    }
    if m == 1 && parallel && n * k >= PARALLEL_ELEMENTS {
        // The crate runs vector shapes on one thread: share out the columns.
        let width = n.div_ceil(rayon::current_num_threads());
        (0..n.div_ceil(width)).into_par_iter().for_each(|block| {
            let col = block * width;
            let rhs = Mat::new(
                &rhs.values[col * rhs.col_stride..],
                rhs.row_stride,
                rhs.col_stride,
            );
            let target = Target {
                start: target.start + col,
                ..target
            };
            call(
                Sizes {
                    m,
                    n: width.min(n - col),
                    k,
                },
                target,
                lhs,
                rhs,
                Parallelism::None,
            );
        });
        return;
    }
    let parallelism = match parallel {
        true => Parallelism::Rayon(0),
        false => Parallelism::None,
    };
    call(sizes, target, lhs, rhs, parallelism);
}

/// Below this many elements read, starting threads costs more than it saves.
const PARALLEL_ELEMENTS: usize = 1 << 16;

/// The length of the runs in which products are added up. The crate adds one after the other over
/// its own, longer runs and loses up to four times as much as torch does; with dot products it keeps
/// many sums side by side, which is as good.
fn run_length<T>(Sizes { m, n, k }: Sizes, lhs: &Mat<T>, rhs: &Mat<T>) -> usize {
    let dot_products = lhs.col_stride == 1 && rhs.row_stride == 1 && m * n <= 256;
    match dot_products || m == 1 || n == 1 {
        true => k.max(1),
        false => (k / 8).clamp(128, 256),
    }
}

unsafe fn call<T: Real>(
    sizes: Sizes,
    target: Target<T>,
    lhs: Mat<T>,
    rhs: Mat<T>,
    parallelism: Parallelism,
) {
    let Sizes { m, n, k } = sizes;
    let run = run_length(sizes, &lhs, &rhs);
    for start in (0..k.max(1)).step_by(run) {
        let accumulate = target.accumulate || start > 0;
        gemm::gemm(
            m,
            n,
            run.min(k - start),
            target.values.offset(target.start),
            1,
            target.row_stride as isize,
            accumulate,
            lhs.values.as_ptr().wrapping_add(start * lhs.col_stride),
            lhs.col_stride as isize,
            lhs.row_stride as isize,
            rhs.values.as_ptr().wrapping_add(start * rhs.row_stride),
            rhs.col_stride as isize,
            rhs.row_stride as isize,
            if accumulate { T::ONE } else { T::ZERO },
            T::ONE,
            false,
            false,
            false,
            parallelism,
        )
    }
}

const COLUMNS: usize = 64;

/// A row vector times a row-major matrix, summed in blocks.
unsafe fn row_by_matrix<T: Real>(
    Sizes { n, k, .. }: Sizes,
    target: Target<T>,
    lhs: Mat<T>,
    rhs: Mat<T>,
    parallel: bool,
) {
    let row: Vec<T> = (0..k).map(|i| lhs.values[i * lhs.col_stride]).collect();
    let block = |index: usize| {
        let col = index * COLUMNS;
        let width = COLUMNS.min(n - col);
        let out = target.values.offset(target.start + col);
        // SAFETY: the caller vouches for the row, and blocks do not overlap.
        let out = unsafe { std::slice::from_raw_parts_mut(out, width) };
        columns_of_row(
            &row,
            &rhs.values[col..],
            rhs.row_stride,
            target.accumulate,
            out,
        );
    };
    let blocks = n.div_ceil(COLUMNS);
    if parallel && n * k >= PARALLEL_ELEMENTS {
        (0..blocks).into_par_iter().for_each(block);
    } else {
        (0..blocks).for_each(block);
    }
}

/// Products of `row` with up to `COLUMNS` columns. Short runs are summed in `T`, the runs in f64.
fn columns_of_row<T: Real>(
    row: &[T],
    matrix: &[T],
    stride: usize,
    accumulate: bool,
    out: &mut [T],
) {
    vectorised(
        #[inline(always)]
        || {
            const RUN: usize = 64;
            let mut totals = [0.0f64; COLUMNS];
            for (r, run) in row.chunks(RUN).enumerate() {
                let mut sums = [T::ZERO; COLUMNS];
                for (i, &v) in run.iter().enumerate() {
                    let start = (r * RUN + i) * stride;
                    let values = &matrix[start..start + out.len()];
                    if let Ok(values) = <&[T; COLUMNS]>::try_from(values) {
                        for j in 0..COLUMNS {
                            sums[j] += v * values[j];
                        }
                    } else {
                        for (sum, &value) in sums.iter_mut().zip(values) {
                            *sum += v * value;
                        }
                    }
                }
                for j in 0..COLUMNS {
                    totals[j] += sums[j].widen();
                }
            }
            for (out, &total) in out.iter_mut().zip(&totals) {
                *out = T::narrow(if accumulate {
                    out.widen() + total
                } else {
                    total
                });
            }
        },
    )
}
