//! Eigenvalues of symmetric matrices and singular values, by Jacobi's rotations. Vectors have an arbitrary sign.

use super::linalg::{matrices, stacked, tensor, Matrix};
use candle::{bail, Result, Tensor};

const SWEEPS: usize = 60;

/// The eigenvalues in ascending order and the eigenvectors (as columns) of each symmetric matrix, of
/// which one triangle is read.
pub fn eigh(x: &Tensor, upper: bool) -> Result<(Tensor, Tensor)> {
    let (batch, found) = matrices("eigh", x)?;
    let size = x.dims()[x.rank() - 1];
    if x.dims()[x.rank() - 2] != size {
        bail!("eigh: needs square matrices, got shape {:?}", x.dims())
    }
    let (mut values, mut vectors) = (vec![], vec![]);
    for mut m in found {
        for i in 0..size {
            for j in 0..i {
                let value = if upper { m[(j, i)] } else { m[(i, j)] };
                (m[(i, j)], m[(j, i)]) = (value, value);
            }
        }
        let (found, basis) = symmetric(m);
        let mut order: Vec<usize> = (0..size).collect();
        order.sort_by(|&a, &b| found[a].total_cmp(&found[b]));
        values.extend(order.iter().map(|&i| found[i]));
        vectors.push(picked(&basis, &order));
    }
    Ok((
        tensor(x, &batch, &[size], values)?,
        stacked(x, &batch, (size, size), vectors)?,
    ))
}

/// The columns of a matrix in an order.
fn picked(m: &Matrix, order: &[usize]) -> Matrix {
    let mut part = Matrix::zeros(m.rows, order.len());
    for (to, &from) in order.iter().enumerate() {
        (0..m.rows).for_each(|i| part[(i, to)] = m[(i, from)]);
    }
    part
}

fn symmetric(mut a: Matrix) -> (Vec<f64>, Matrix) {
    let size = a.rows;
    let mut basis = Matrix::identity(size);
    for _ in 0..SWEEPS {
        let off: f64 = (0..size)
            .map(|i| (0..i).map(|j| a[(i, j)].powi(2)).sum::<f64>())
            .sum();
        let scale: f64 = (0..size).map(|i| a[(i, i)].powi(2)).sum::<f64>();
        if off.is_nan() || off <= scale * 1e-34 {
            break;
        }
        for p in 0..size {
            for q in p + 1..size {
                if a[(p, q)] == 0.0 {
                    continue;
                }
                let (c, s) = rotation(a[(p, p)], a[(q, q)], a[(p, q)]);
                for k in 0..size {
                    let (x, y) = (a[(k, p)], a[(k, q)]);
                    (a[(k, p)], a[(k, q)]) = (c * x - s * y, s * x + c * y);
                }
                for k in 0..size {
                    let (x, y) = (a[(p, k)], a[(q, k)]);
                    (a[(p, k)], a[(q, k)]) = (c * x - s * y, s * x + c * y);
                }
                turn(&mut basis, p, q, c, s);
            }
        }
    }
    ((0..size).map(|i| a[(i, i)]).collect(), basis)
}

/// Cosine and sine of the rotation that makes the element `off` between two diagonal ones zero.
fn rotation(p: f64, q: f64, off: f64) -> (f64, f64) {
    let ratio = (q - p) / (2.0 * off);
    let tangent = 1.0f64.copysign(ratio) / (ratio.abs() + ratio.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    (cosine, cosine * tangent)
}

fn turn(m: &mut Matrix, p: usize, q: usize, c: f64, s: f64) {
    for k in 0..m.rows {
        let (x, y) = (m[(k, p)], m[(k, q)]);
        (m[(k, p)], m[(k, q)]) = (c * x - s * y, s * x + c * y);
    }
}

/// Left vectors, singular values in descending order, and right vectors (as rows) of each matrix.
pub fn svd(x: &Tensor, full: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let (batch, found) = matrices("svd", x)?;
    let (rows, columns) = (x.dims()[x.rank() - 2], x.dims()[x.rank() - 1]);
    let inner = rows.min(columns);
    let (across, down) = if full {
        (rows, columns)
    } else {
        (inner, inner)
    };
    let (mut us, mut values, mut vs) = (vec![], vec![], vec![]);
    for m in found {
        let (u, s, v) = match rows >= columns {
            true => tall(m),
            false => {
                let (v, s, u) = tall(m.transposed());
                (u, s, v)
            }
        };
        us.push(completed(u, across));
        values.extend(s);
        vs.push(completed(v, down).transposed());
    }
    Ok((
        stacked(x, &batch, (rows, across), us)?,
        tensor(x, &batch, &[inner], values)?,
        stacked(x, &batch, (down, columns), vs)?,
    ))
}

/// Rotates columns until all are at right angles: their lengths are the singular values.
fn tall(mut a: Matrix) -> (Matrix, Vec<f64>, Matrix) {
    let (rows, columns) = (a.rows, a.columns);
    let mut v = Matrix::identity(columns);
    let inner =
        |a: &Matrix, p: usize, q: usize| (0..rows).map(|i| a[(i, p)] * a[(i, q)]).sum::<f64>();
    for _ in 0..SWEEPS {
        let mut largest = 0.0f64;
        for p in 0..columns {
            for q in p + 1..columns {
                let (pp, qq, pq) = (inner(&a, p, p), inner(&a, q, q), inner(&a, p, q));
                if pq == 0.0 || pq.abs() <= 1e-17 * (pp * qq).sqrt() {
                    continue;
                }
                largest = largest.max(pq.abs() / (pp * qq).sqrt());
                let (c, s) = rotation(pp, qq, pq);
                turn(&mut a, p, q, c, s);
                turn(&mut v, p, q, c, s);
            }
        }
        if largest <= 1e-15 {
            break;
        }
    }
    let lengths: Vec<f64> = (0..columns).map(|j| inner(&a, j, j).sqrt()).collect();
    let mut order: Vec<usize> = (0..columns).collect();
    order.sort_by(|&p, &q| lengths[q].total_cmp(&lengths[p]));
    let (mut u, v) = (picked(&a, &order), picked(&v, &order));
    let values: Vec<f64> = order.iter().map(|&j| lengths[j]).collect();
    let least = values
        .first()
        .map_or(0.0, |&v| v * f64::EPSILON * rows as f64);
    let rank = values.iter().take_while(|&&v| v > least).count();
    for (j, &length) in values.iter().enumerate().take(rank) {
        (0..rows).for_each(|i| u[(i, j)] /= length);
    }
    // What belongs to no length is any basis of the rest.
    let u = completed(u.corner(rows, rank), columns);
    (u, values, v)
}

/// The columns, which are at right angles, and more of them.
fn completed(m: Matrix, columns: usize) -> Matrix {
    let mut whole = Matrix::zeros(m.rows, columns);
    for j in 0..m.columns {
        (0..m.rows).for_each(|i| whole[(i, j)] = m[(i, j)]);
    }
    let mut known = m.columns;
    for axis in 0..m.rows {
        if known == columns {
            break;
        }
        let mut v = vec![0.0; m.rows];
        v[axis] = 1.0;
        for _ in 0..2 {
            for j in 0..known {
                let share: f64 = (0..m.rows).map(|i| v[i] * whole[(i, j)]).sum();
                (0..m.rows).for_each(|i| v[i] -= share * whole[(i, j)]);
            }
        }
        let length = v.iter().map(|v| v * v).sum::<f64>().sqrt();
        if length > 1e-4 {
            (0..m.rows).for_each(|i| whole[(i, known)] = v[i] / length);
            known += 1;
        }
    }
    whole
}

/// The pseudo-inverse of each matrix: singular values that are not above `absolute`, nor above `relative`
/// times the largest, count as zero.
pub fn pinv(x: &Tensor, absolute: Option<&Tensor>, relative: Option<&Tensor>) -> Result<Tensor> {
    let (batch, found) = matrices("pinv", x)?;
    let (rows, columns) = (x.dims()[x.rank() - 2], x.dims()[x.rank() - 1]);
    let limits = |limit: Option<&Tensor>| match limit {
        Some(limit) => {
            let limit = super::to_dtype(&limit.broadcast_as(&*batch)?, candle::DType::F64)?;
            limit.flatten_all()?.to_vec1::<f64>().map(Some)
        }
        None => Ok(None),
    };
    let (absolute, relative) = (limits(absolute)?, limits(relative)?);
    let eps = match x.dtype() {
        candle::DType::F64 => f64::EPSILON,
        _ => f32::EPSILON as f64,
    };
    let mut inverses = vec![];
    for (i, m) in found.into_iter().enumerate() {
        let (u, s, v) = match rows >= columns {
            true => tall(m),
            false => {
                let (v, s, u) = tall(m.transposed());
                (u, s, v)
            }
        };
        let absolute = absolute.as_ref().map_or(0.0, |all| all[i]);
        let usual = if absolute > 0.0 {
            0.0
        } else {
            eps * rows.max(columns) as f64
        };
        let relative = relative.as_ref().map_or(usual, |all| all[i]);
        let least = absolute.max(relative * s.first().copied().unwrap_or(0.0));
        let mut scaled = v;
        for (j, &length) in s.iter().enumerate() {
            let factor = if length > least { 1.0 / length } else { 0.0 };
            (0..scaled.rows).for_each(|i| scaled[(i, j)] *= factor);
        }
        inverses.push(
            scaled
                .corner(columns, s.len())
                .times(&u.corner(rows, s.len()).transposed()),
        );
    }
    stacked(x, &batch, (columns, rows), inverses)
}
