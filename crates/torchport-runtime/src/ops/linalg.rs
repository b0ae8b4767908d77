//! Factorisations and solutions of dense matrices, in batches. Computed in f64 for all dtypes.

use super::kernel::broadcast_shape;
use super::{contiguous, to_dtype};
use candle::{bail, DType, Result, Tensor};

/// A matrix, row after row.
#[derive(Debug, Clone)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) values: Vec<f64>,
}

impl Matrix {
    pub(crate) fn zeros(rows: usize, columns: usize) -> Self {
        Self {
            rows,
            columns,
            values: vec![0.0; rows * columns],
        }
    }

    pub(crate) fn identity(size: usize) -> Self {
        let mut one = Self::zeros(size, size);
        (0..size).for_each(|i| one[(i, i)] = 1.0);
        one
    }

    pub(crate) fn transposed(&self) -> Self {
        let mut other = Self::zeros(self.columns, self.rows);
        for i in 0..self.rows {
            for j in 0..self.columns {
                other[(j, i)] = self[(i, j)];
            }
        }
        other
    }

    pub(crate) fn times(&self, other: &Self) -> Self {
        let mut product = Self::zeros(self.rows, other.columns);
        for i in 0..self.rows {
            for k in 0..self.columns {
                let factor = self[(i, k)];
                for j in 0..other.columns {
                    product[(i, j)] += factor * other[(k, j)];
                }
            }
        }
        product
    }

    /// The part of the first rows and columns.
    pub(crate) fn corner(&self, rows: usize, columns: usize) -> Self {
        let mut part = Self::zeros(rows, columns);
        for i in 0..rows {
            for j in 0..columns {
                part[(i, j)] = self[(i, j)];
            }
        }
        part
    }

    fn swap_rows(&mut self, a: usize, b: usize) {
        for j in 0..self.columns {
            self.values.swap(a * self.columns + j, b * self.columns + j);
        }
    }
}

impl std::ops::Index<(usize, usize)> for Matrix {
    type Output = f64;
    fn index(&self, (i, j): (usize, usize)) -> &f64 {
        &self.values[i * self.columns + j]
    }
}

impl std::ops::IndexMut<(usize, usize)> for Matrix {
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut f64 {
        &mut self.values[i * self.columns + j]
    }
}

/// The matrices of a tensor, and the dimensions in front of theirs.
pub(crate) fn matrices(op: &str, x: &Tensor) -> Result<(Vec<usize>, Vec<Matrix>)> {
    let [batch @ .., rows, columns] = x.dims() else {
        bail!("{op}: needs a matrix, got shape {:?}", x.dims())
    };
    let values = to_dtype(&contiguous(x)?, DType::F64)?
        .flatten_all()?
        .to_vec1::<f64>()?;
    let count = batch.iter().product::<usize>();
    let size = rows * columns;
    let matrix = |i: usize| Matrix {
        rows: *rows,
        columns: *columns,
        values: values[i * size..][..size].to_vec(),
    };
    Ok((batch.to_vec(), (0..count).map(matrix).collect()))
}

/// Numbers of each matrix of a batch as a tensor like `like`.
pub(crate) fn tensor(
    like: &Tensor,
    batch: &[usize],
    shape: &[usize],
    values: Vec<f64>,
) -> Result<Tensor> {
    let y = Tensor::from_vec(values, [batch, shape].concat(), like.device())?;
    to_dtype(&y, like.dtype())
}

/// Matrices of one shape as a tensor like `like`.
pub(crate) fn stacked(
    like: &Tensor,
    batch: &[usize],
    (rows, columns): (usize, usize),
    found: impl IntoIterator<Item = Matrix>,
) -> Result<Tensor> {
    let values = found.into_iter().flat_map(|m| m.values).collect();
    tensor(like, batch, &[rows, columns], values)
}

fn square(op: &str, x: &Tensor) -> Result<(Vec<usize>, usize, Vec<Matrix>)> {
    let (batch, found) = matrices(op, x)?;
    let (rows, columns) = (x.dims()[x.rank() - 2], x.dims()[x.rank() - 1]);
    if rows != columns {
        bail!("{op}: needs square matrices, got shape {:?}", x.dims())
    }
    Ok((batch, rows, found))
}

/// A matrix as lower and upper triangle in one, with the row that each row was swapped with.
pub(crate) struct Lu {
    pub(crate) factors: Matrix,
    pub(crate) swaps: Vec<usize>,
    sign: f64,
    singular: bool,
}

impl Lu {
    pub(crate) fn new(mut a: Matrix, pivot: bool) -> Self {
        let steps = a.rows.min(a.columns);
        let (mut swaps, mut sign, mut singular) = (vec![], 1.0, false);
        for k in 0..steps {
            let larger = |best: usize, i: usize| {
                if a[(i, k)].abs() > a[(best, k)].abs() {
                    i
                } else {
                    best
                }
            };
            let best = if pivot {
                (k + 1..a.rows).fold(k, larger)
            } else {
                k
            };
            swaps.push(best);
            if best != k {
                a.swap_rows(k, best);
                sign = -sign;
            }
            if a[(k, k)] == 0.0 {
                singular = true;
                continue;
            }
            for i in k + 1..a.rows {
                let factor = a[(i, k)] / a[(k, k)];
                a[(i, k)] = factor;
                for j in k + 1..a.columns {
                    let step = factor * a[(k, j)];
                    a[(i, j)] -= step;
                }
            }
        }
        Self {
            factors: a,
            swaps,
            sign,
            singular,
        }
    }

    fn diagonal(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.factors.rows).map(|i| self.factors[(i, i)])
    }

    pub(crate) fn solve(&self, b: &Matrix) -> Matrix {
        let mut x = b.clone();
        for (k, &other) in self.swaps.iter().enumerate() {
            x.swap_rows(k, other);
        }
        let x = substitute(&self.factors, &x, false, true);
        substitute(&self.factors, &x, true, false)
    }
}

/// The solution `x` of `t x = b` for a triangular `t`, of which only that triangle is read.
pub(crate) fn substitute(t: &Matrix, b: &Matrix, upper: bool, unit: bool) -> Matrix {
    let mut x = b.clone();
    let size = t.rows;
    for step in 0..size {
        let i = if upper { size - 1 - step } else { step };
        let known = if upper { i + 1..size } else { 0..i };
        for j in 0..x.columns {
            let sum: f64 = known.clone().map(|k| t[(i, k)] * x[(k, j)]).sum();
            let rest = x[(i, j)] - sum;
            x[(i, j)] = if unit { rest } else { rest / t[(i, i)] };
        }
    }
    x
}

/// The determinant of each matrix.
pub fn det(x: &Tensor) -> Result<Tensor> {
    let (batch, _, found) = square("det", x)?;
    let values = found.into_iter().map(|m| {
        let lu = Lu::new(m, true);
        lu.sign * lu.diagonal().product::<f64>()
    });
    tensor(x, &batch, &[], values.collect())
}

/// Sign and logarithm of the size of each determinant.
pub fn slogdet(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let (batch, _, found) = square("slogdet", x)?;
    let (mut signs, mut sizes) = (vec![], vec![]);
    for m in found {
        let lu = Lu::new(m, true);
        let sign = lu
            .diagonal()
            .fold(lu.sign, |s, v| if v == 0.0 { 0.0 } else { s * v.signum() });
        signs.push(sign);
        sizes.push(lu.diagonal().map(|v| v.abs().ln()).sum());
    }
    Ok((
        tensor(x, &batch, &[], signs)?,
        tensor(x, &batch, &[], sizes)?,
    ))
}

/// The inverse of each matrix; an error if one has none.
pub fn inverse(x: &Tensor) -> Result<Tensor> {
    let (batch, size, found) = square("inverse", x)?;
    let mut inverses = vec![];
    for m in found {
        let lu = Lu::new(m, true);
        if lu.singular {
            bail!("inverse: a matrix is singular")
        }
        inverses.push(lu.solve(&Matrix::identity(size)));
    }
    stacked(x, &batch, (size, size), inverses)
}

/// The sizes of a solution, and for each system its matrix and its right side.
type Systems = (Vec<usize>, Vec<(Matrix, Matrix)>);

/// Pairs of matrices after broadcasting the dimensions in front; `b` may be vectors.
fn side_by_side(op: &str, a: &Tensor, b: &Tensor, vectors: bool) -> Result<Systems> {
    let b = if vectors {
        b.unsqueeze(b.rank())?
    } else {
        b.clone()
    };
    let (left, right) = (&a.dims()[..a.rank() - 2], &b.dims()[..b.rank() - 2]);
    let batch = broadcast_shape(left, right)?;
    let a = a.broadcast_as([&batch, &a.dims()[a.rank() - 2..]].concat())?;
    let b = b.broadcast_as([&batch, &b.dims()[b.rank() - 2..]].concat())?;
    let pairs = matrices(op, &a)?.1.into_iter().zip(matrices(op, &b)?.1);
    Ok((batch, pairs.collect()))
}

/// Whether torch takes the right side of a system for vectors.
fn is_vectors(a: &Tensor, b: &Tensor) -> bool {
    b.rank() == 1 || (a.rank() == b.rank() + 1 && a.dims()[..a.rank() - 1] == *b.dims())
}

/// `x` with `a x = b`, or `x a = b` unless `left`; an error if a matrix is singular.
pub fn solve(a: &Tensor, b: &Tensor, left: bool) -> Result<Tensor> {
    square("solve", a)?;
    if !left {
        return solve(&a.t()?, &b.t()?, true)?.t();
    }
    let vectors = is_vectors(a, b);
    let (batch, pairs) = side_by_side("solve", a, b, vectors)?;
    let mut solutions = vec![];
    for (m, right) in pairs {
        let lu = Lu::new(m, true);
        if lu.singular {
            bail!("solve: a matrix is singular")
        }
        solutions.push(lu.solve(&right));
    }
    let (rows, columns) = solutions.first().map_or((0, 0), |m| (m.rows, m.columns));
    let x = stacked(b, &batch, (rows, columns), solutions)?;
    if vectors {
        x.squeeze(x.rank() - 1)
    } else {
        Ok(x)
    }
}

/// `x` with `a x = b`, or `x a = b` unless `left`, for triangular `a`.
pub fn solve_triangular(
    a: &Tensor,
    b: &Tensor,
    upper: bool,
    left: bool,
    unit: bool,
) -> Result<Tensor> {
    if !left {
        return solve_triangular(&a.t()?, &b.t()?, !upper, true, unit)?.t();
    }
    let (batch, pairs) = side_by_side("solve_triangular", a, b, false)?;
    let (rows, columns) = (b.dims()[b.rank() - 2], b.dims()[b.rank() - 1]);
    let found = pairs.iter().map(|(t, b)| substitute(t, b, upper, unit));
    stacked(b, &batch, (rows, columns), found.collect::<Vec<_>>())
}

/// Both triangles of each matrix in one, and the row (i32, from 1) that each was swapped with.
pub fn lu_factor(x: &Tensor, pivot: bool) -> Result<(Tensor, Tensor)> {
    let (batch, found) = matrices("lu_factor", x)?;
    let (rows, columns) = (x.dims()[x.rank() - 2], x.dims()[x.rank() - 1]);
    let (mut factors, mut swaps) = (vec![], vec![]);
    for m in found {
        let lu = Lu::new(m, pivot);
        swaps.extend(lu.swaps.iter().map(|&row| row as i32 + 1));
        factors.push(lu.factors);
    }
    let swaps = Tensor::from_vec(
        swaps,
        [&batch[..], &[rows.min(columns)]].concat(),
        x.device(),
    )?;
    Ok((stacked(x, &batch, (rows, columns), factors)?, swaps))
}

/// Permutation, lower and upper triangle of what `lu_factor` gives.
pub fn lu_unpack(lu: &Tensor, swaps: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let (batch, found) = matrices("lu_unpack", lu)?;
    let (rows, columns) = (lu.dims()[lu.rank() - 2], lu.dims()[lu.rank() - 1]);
    let inner = rows.min(columns);
    let swaps = to_dtype(swaps, DType::I64)?
        .flatten_all()?
        .to_vec1::<i64>()?;
    let (mut p, mut l, mut u) = (vec![], vec![], vec![]);
    for (m, swaps) in found.iter().zip(swaps.chunks(inner.max(1))) {
        let mut order: Vec<usize> = (0..rows).collect();
        for (k, &other) in swaps.iter().enumerate() {
            order.swap(k, other as usize - 1);
        }
        let mut permutation = Matrix::zeros(rows, rows);
        order
            .iter()
            .enumerate()
            .for_each(|(i, &row)| permutation[(row, i)] = 1.0);
        let (mut lower, mut upper) = (Matrix::zeros(rows, inner), Matrix::zeros(inner, columns));
        for i in 0..rows {
            for j in 0..columns {
                if i <= j {
                    upper[(i, j)] = m[(i, j)];
                } else {
                    lower[(i, j)] = m[(i, j)];
                }
            }
        }
        (0..inner).for_each(|i| lower[(i, i)] = 1.0);
        p.push(permutation);
        l.push(lower);
        u.push(upper);
    }
    Ok((
        stacked(lu, &batch, (rows, rows), p)?,
        stacked(lu, &batch, (rows, inner), l)?,
        stacked(lu, &batch, (inner, columns), u)?,
    ))
}

/// The Cholesky factor of each matrix, lower or upper; an error if one is not positive definite.
pub fn cholesky(x: &Tensor, upper: bool) -> Result<Tensor> {
    let (batch, size, found) = square("cholesky", x)?;
    let mut factors = vec![];
    for m in found {
        let m = if upper { m.transposed() } else { m };
        let mut l = Matrix::zeros(size, size);
        for j in 0..size {
            for i in j..size {
                let sum: f64 = (0..j).map(|k| l[(i, k)] * l[(j, k)]).sum();
                let rest = m[(i, j)] - sum;
                if i > j {
                    l[(i, j)] = rest / l[(j, j)];
                } else if rest > 0.0 {
                    l[(j, j)] = rest.sqrt();
                } else {
                    bail!("cholesky: a matrix is not positive definite")
                }
            }
        }
        factors.push(if upper { l.transposed() } else { l });
    }
    stacked(x, &batch, (size, size), factors)
}

/// `x` with `l lᵀ x = b`, or `uᵀ u x = b` if the factor is upper.
pub fn cholesky_solve(b: &Tensor, factor: &Tensor, upper: bool) -> Result<Tensor> {
    let lower = if upper { factor.t()? } else { factor.clone() };
    let y = solve_triangular(&lower, b, false, true, false)?;
    solve_triangular(&lower.t()?, &y, true, true, false)
}

/// Householder's factors of each matrix: orthogonal columns (all of them if `complete`) and upper triangle.
pub fn qr(x: &Tensor, complete: bool) -> Result<(Tensor, Tensor)> {
    let (batch, found) = matrices("qr", x)?;
    let (rows, columns) = (x.dims()[x.rank() - 2], x.dims()[x.rank() - 1]);
    let inner = if complete { rows } else { rows.min(columns) };
    let (mut qs, mut rs) = (vec![], vec![]);
    for m in found {
        let (q, r) = householder(m);
        qs.push(q.corner(rows, inner));
        rs.push(r.corner(inner, columns));
    }
    Ok((
        stacked(x, &batch, (rows, inner), qs)?,
        stacked(x, &batch, (inner, columns), rs)?,
    ))
}

/// The diagonal has the signs that LAPACK gives it.
fn householder(mut r: Matrix) -> (Matrix, Matrix) {
    let rows = r.rows;
    let mut q = Matrix::identity(rows);
    for k in 0..r.columns.min(rows.saturating_sub(1)) {
        let below: f64 = (k + 1..rows).map(|i| r[(i, k)] * r[(i, k)]).sum();
        if below == 0.0 {
            continue;
        }
        let head = r[(k, k)];
        let size = -(head * head + below).sqrt().copysign(head);
        let mut v = vec![0.0; rows];
        v[k] = head - size;
        (k + 1..rows).for_each(|i| v[i] = r[(i, k)]);
        let square: f64 = v.iter().map(|v| v * v).sum();
        for j in 0..r.columns {
            let share = 2.0 * (k..rows).map(|i| v[i] * r[(i, j)]).sum::<f64>() / square;
            (k..rows).for_each(|i| r[(i, j)] -= share * v[i]);
        }
        for i in 0..rows {
            let share = 2.0 * (k..rows).map(|j| v[j] * q[(i, j)]).sum::<f64>() / square;
            (k..rows).for_each(|j| q[(i, j)] -= share * v[j]);
        }
        (k + 1..rows).for_each(|i| r[(i, k)] = 0.0);
    }
    (q, r)
}

/// The exponential of each matrix: a Taylor polynomial of a fraction of it, squared again and again.
pub fn matrix_exp(x: &Tensor) -> Result<Tensor> {
    let (batch, size, found) = square("matrix_exp", x)?;
    let exponential = |m: Matrix| {
        let largest = (0..size).map(|i| (0..size).map(|j| m[(i, j)].abs()).sum::<f64>());
        let norm = largest.fold(0.0, f64::max);
        let halvings = (norm * 4.0).log2().ceil().clamp(0.0, 1000.0) as i32;
        let mut part = m;
        part.values
            .iter_mut()
            .for_each(|v| *v *= 0.5f64.powi(halvings));
        let (mut term, mut sum) = (Matrix::identity(size), Matrix::identity(size));
        for k in 1..20 {
            term = term.times(&part);
            term.values.iter_mut().for_each(|v| *v /= k as f64);
            sum.values
                .iter_mut()
                .zip(&term.values)
                .for_each(|(s, t)| *s += t);
        }
        (0..halvings).fold(sum, |m, _| m.times(&m))
    };
    stacked(x, &batch, (size, size), found.into_iter().map(exponential))
}
