//! Tests of matrix products against sums in f64.

use super::gemm::{gemm, Sizes};
use super::matrix::{Mat, Target};
use super::real::SharedMut;

fn values(len: usize, seed: usize) -> Vec<f32> {
    (0..len)
        .map(|i| (((i + seed) * 7919 % 101) as f32 - 50.0) / 50.0)
        .collect()
}

/// The largest difference from sums in f64, relative to their size, for operands stored by row or by column.
fn worst_error(Sizes { m, n, k }: Sizes, by_column: [bool; 2], parallel: bool) -> f64 {
    let (a, b, mut y) = (values(m * k, 1), values(k * n, 2), values(m * n, 3));
    let lhs = if by_column[0] {
        Mat::new(&a, 1, m)
    } else {
        Mat::new(&a, k, 1)
    };
    let rhs = if by_column[1] {
        Mat::new(&b, 1, k)
    } else {
        Mat::new(&b, n, 1)
    };
    let at = |x: &Mat<f32>, r, c| x.values[r * x.row_stride + c * x.col_stride] as f64;
    let product = |r, c| (0..k).map(|p| at(&lhs, r, p) * at(&rhs, p, c)).sum::<f64>();
    let expected: Vec<f64> = (0..m * n)
        .map(|i| y[i] as f64 + product(i / n, i % n))
        .collect();
    let target = Target::new(SharedMut::new(&mut y), 0, n, true);
    // SAFETY: `y` has m rows of n elements.
    unsafe { gemm(Sizes { m, n, k }, target, lhs, rhs, parallel) };
    let errors = y
        .iter()
        .zip(expected)
        .map(|(y, sum)| (*y as f64 - sum).abs() / (1.0 + sum.abs()));
    errors.fold(0.0, f64::max)
}

#[test]
fn every_shape_and_layout_gives_the_product() {
    for m in [1, 2, 7, 33, 70] {
        for n in [1, 5, 16, 49, 150] {
            for k in [0, 1, 3, 161, 700] {
                for by_column in [[false, false], [false, true], [true, false], [true, true]] {
                    for parallel in [false, true] {
                        let error = worst_error(Sizes { m, n, k }, by_column, parallel);
                        assert!(error < 1e-5, "{m} x {k} x {n} {by_column:?}: {error}");
                    }
                }
            }
        }
    }
}

#[test]
fn many_columns_are_shared_out_between_threads() {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(5)
        .build()
        .expect("threads");
    for (m, n) in [(40, 2000), (2000, 40), (3, 5000)] {
        let sizes = Sizes { m, n, k: 90 };
        let error = pool.install(|| worst_error(sizes, [false, false], true));
        assert!(error < 1e-5, "{m} x {n}: {error}");
    }
}
