//! A matrix times a vector. Runs of a few products are summed in the type at hand, the runs in f64:
//! as fast as the matrix can be read, and almost as exact as f64 throughout.

use super::kernel::vectorised;
use super::matrix::{Mat, Target};
use super::real::Real;
use rayon::prelude::*;

/// With fewer elements than this, waking other threads costs more than it saves.
const PARALLEL_FROM: usize = 1 << 16;

/// `target (+)= matrix · vector` for the first `rows` rows, if the matrix is contiguous in one of
/// its directions; false otherwise.
///
/// # Safety
/// `target` has to be valid for a column of `rows` elements that no other thread touches.
pub(super) unsafe fn gemv<T: Real>(
    rows: usize,
    target: Target<T>,
    matrix: Mat<T>,
    vector: &[T],
    parallel: bool,
) -> bool {
    if matrix.col_stride != 1 && matrix.row_stride != 1 {
        return false;
    }
    let by_row = matrix.col_stride == 1;
    let size = if by_row { 64 } else { 1024 };
    let block = |index: usize| {
        let row = index * size;
        let matrix = matrix.from(row, 0);
        let mut totals = vec![0.0; size.min(rows - row)];
        match by_row {
            true => dot_products(matrix.values, matrix.row_stride, vector, &mut totals),
            false => combination(matrix.values, matrix.col_stride, vector, &mut totals),
        }
        let sums: Vec<T> = totals.into_iter().map(T::narrow).collect();
        // SAFETY: the caller vouches for the column, and blocks do not overlap.
        unsafe { target.from(row, 0).put(&sums, 1, sums.len(), 1) };
    };
    let blocks = 0..rows.div_ceil(size);
    if parallel && rows * vector.len() >= PARALLEL_FROM {
        blocks.into_par_iter().for_each(block);
    } else {
        blocks.for_each(block);
    }
    true
}

/// Products that are summed before they are widened.
const RUN: usize = 8;

/// `vector` times each of the rows that lie `stride` apart.
fn dot_products<T: Real>(matrix: &[T], stride: usize, vector: &[T], totals: &mut [f64]) {
    const LANES: usize = 32;
    let whole = vector.len() / LANES * LANES;
    let (vector, rest) = vector.split_at(whole);
    vectorised(
        #[inline(always)]
        || {
            for (row, total) in totals.iter_mut().enumerate() {
                let row = &matrix[row * stride..][..whole + rest.len()];
                let (row, end) = row.split_at(whole);
                let mut wide = [0.0; LANES];
                for (row, vector) in row.chunks(RUN * LANES).zip(vector.chunks(RUN * LANES)) {
                    let mut sums = [T::ZERO; LANES];
                    for (values, factors) in row.chunks_exact(LANES).zip(vector.chunks_exact(LANES))
                    {
                        for i in 0..LANES {
                            sums[i] += values[i] * factors[i];
                        }
                    }
                    for i in 0..LANES {
                        wide[i] += sums[i].widen();
                    }
                }
                let end = end.iter().zip(rest).map(|(a, b)| a.widen() * b.widen());
                *total = wide.iter().sum::<f64>() + end.sum::<f64>();
            }
        },
    )
}

/// Adds up columns that lie `stride` apart, each times its factor.
fn combination<T: Real>(matrix: &[T], stride: usize, factors: &[T], totals: &mut [f64]) {
    let (whole, rest) = factors.as_chunks::<RUN>();
    vectorised(
        #[inline(always)]
        || {
            for (run, factors) in whole.iter().enumerate() {
                let column = |i| &matrix[(run * RUN + i) * stride..][..totals.len()];
                let columns: [&[T]; RUN] = std::array::from_fn(column);
                for (j, total) in totals.iter_mut().enumerate() {
                    let mut sum = T::ZERO;
                    for i in 0..RUN {
                        sum += factors[i] * columns[i][j];
                    }
                    *total += sum.widen();
                }
            }
            for (i, factor) in rest.iter().enumerate() {
                let column = &matrix[(whole.len() * RUN + i) * stride..];
                for (total, value) in totals.iter_mut().zip(column) {
                    *total += factor.widen() * value.widen();
                }
            }
        },
    )
}
