//! Strided matrices on slices: what matrix products read and write.

use super::real::{Real, SharedMut};
use std::ops::Range;

/// A strided matrix that is read.
#[derive(Clone, Copy)]
pub(crate) struct Mat<'a, T> {
    pub(super) values: &'a [T],
    pub(super) row_stride: usize,
    pub(super) col_stride: usize,
}

impl<'a, T: Real> Mat<'a, T> {
    pub(crate) fn new(values: &'a [T], row_stride: usize, col_stride: usize) -> Self {
        Self {
            values,
            row_stride,
            col_stride,
        }
    }

    pub(crate) fn transposed(self) -> Self {
        Self::new(self.values, self.col_stride, self.row_stride)
    }

    pub(super) fn from(self, row: usize, col: usize) -> Self {
        let start = row * self.row_stride + col * self.col_stride;
        Self {
            values: self.values.get(start..).unwrap_or_default(),
            ..self
        }
    }

    pub(super) fn holds(&self, rows: usize, cols: usize) -> bool {
        rows == 0
            || cols == 0
            || (rows - 1) * self.row_stride + (cols - 1) * self.col_stride < self.values.len()
    }
}

/// Something whose blocks can be copied out: the right operand of a product.
pub(crate) trait Columns<T>: Sync {
    /// Writes rows `rows` of `width` columns from `col` on to `out`, a row every `stride` elements.
    fn copy(&self, rows: Range<usize>, col: usize, width: usize, stride: usize, out: &mut [T]);
}

impl<T: Real> Columns<T> for Mat<'_, T> {
    fn copy(&self, rows: Range<usize>, col: usize, width: usize, stride: usize, out: &mut [T]) {
        let block = self.from(rows.start, col);
        if block.row_stride == 1 {
            for c in 0..width {
                let column = &block.values[c * block.col_stride..][..rows.len()];
                let out = out[c..].iter_mut().step_by(stride);
                out.zip(column).for_each(|(out, value)| *out = *value);
            }
            return;
        }
        for (r, out) in out.chunks_mut(stride).take(rows.len()).enumerate() {
            let row = &block.values[r * block.row_stride..];
            match block.col_stride {
                1 => out[..width].copy_from_slice(&row[..width]),
                step => (0..width).for_each(|c| out[c] = row[c * step]),
            }
        }
    }
}

/// Where a product goes: a strided matrix, overwritten or added to.
#[derive(Clone, Copy)]
pub(crate) struct Target<T> {
    pub(super) values: SharedMut<T>,
    pub(super) row_stride: usize,
    pub(super) col_stride: usize,
    pub(super) accumulate: bool,
}

impl<T: Real> Target<T> {
    /// A matrix from element `start` on, with rows `row_stride` apart.
    pub(crate) fn new(
        values: SharedMut<T>,
        start: usize,
        row_stride: usize,
        accumulate: bool,
    ) -> Self {
        Self {
            values: values.from(start),
            row_stride,
            col_stride: 1,
            accumulate,
        }
    }

    pub(super) fn from(self, row: usize, col: usize) -> Self {
        let values = self
            .values
            .from(row * self.row_stride + col * self.col_stride);
        Self { values, ..self }
    }

    pub(super) fn transposed(self) -> Self {
        Self {
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// Writes or adds the `rows` by `cols` sums in front of the lines of a tile.
    ///
    /// # Safety
    /// The target has to be valid for these rows and columns, and no other thread may touch them.
    pub(super) unsafe fn put(&self, sums: &[T], line: usize, rows: usize, cols: usize) {
        if self.col_stride == 1 {
            for (r, sums) in sums.chunks(line).take(rows).enumerate() {
                let start = self.values.offset(r * self.row_stride);
                let target = std::slice::from_raw_parts_mut(start, cols);
                match self.accumulate {
                    true => target.iter_mut().zip(sums).for_each(|(t, s)| *t += *s),
                    false => target.copy_from_slice(&sums[..cols]),
                }
            }
            return;
        }
        for c in 0..cols {
            for r in 0..rows {
                let target = self
                    .values
                    .offset(r * self.row_stride + c * self.col_stride);
                let sum = sums[r * line + c];
                *target = if self.accumulate { *target + sum } else { sum };
            }
        }
    }
}
