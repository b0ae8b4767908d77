//! The innermost loop of matrix products on x86: a few rows times a few vectors of columns, with
//! all sums in registers.

use super::real::Real;

/// `sums[r][c] = Σ_p rows[r][p] · columns[p][c]` over `k` steps, for a tile that the kernel was
/// compiled for: `lhs` is read with strides, `columns` holds the tile's columns step after step,
/// and the sums are written row after row.
pub(super) type Tile<T> =
    unsafe fn(k: usize, lhs: *const T, row: usize, step: usize, columns: *const T, sums: *mut T);

/// The kernels of one instruction set for one type.
pub(super) struct Kernels<T: 'static> {
    /// Columns in one vector.
    pub lanes: usize,
    /// For 1, 2, 4… rows: kernels for one, two and three vectors of columns.
    pub by_rows: &'static [[Tile<T>; VECTORS]],
}

/// The most vectors of columns in a tile.
pub(super) const VECTORS: usize = 3;
/// The most elements in a tile: eight rows of three vectors of sixteen.
pub(super) const LARGEST_TILE: usize = 8 * VECTORS * 16;

/// The best kernels for `T` on this machine, if any.
#[cfg(target_arch = "x86_64")]
pub(super) fn kernels<T: Real>() -> Option<&'static Kernels<T>> {
    use std::any::Any;
    let avx512 = is_x86_feature_detected!("avx512f");
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    let (single, double) = match (avx512, avx2) {
        (true, _) => (&x86::F32_AVX512, &x86::F64_AVX512),
        (_, true) => (&x86::F32_AVX2, &x86::F64_AVX2),
        _ => return None,
    };
    let (single, double): (&'static dyn Any, &'static dyn Any) = (single, double);
    single.downcast_ref().or(double.downcast_ref())
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn kernels<T: Real>() -> Option<&'static Kernels<T>> {
    None
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Kernels, VECTORS};
    use std::arch::x86_64::*;

    macro_rules! kernels {
        ($kernels:ident, $tile:ident, $features:literal, $T:ty, $lanes:literal, [$($rows:literal),*],
         $zero:ident, $splat:ident, $load:ident, $store:ident, $multiply_add:ident) => {
            pub(super) static $kernels: Kernels<$T> = Kernels {
                lanes: $lanes,
                by_rows: &[$([$tile::<$rows, 1>, $tile::<$rows, 2>, $tile::<$rows, VECTORS>]),*],
            };

            #[target_feature(enable = $features)]
            unsafe fn $tile<const R: usize, const V: usize>(
                k: usize,
                lhs: *const $T,
                row: usize,
                step: usize,
                mut columns: *const $T,
                sums: *mut $T,
            ) {
                let mut totals = [[$zero(); V]; R];
                let mut rows = [lhs; R];
                for r in 0..R {
                    rows[r] = lhs.wrapping_add(r * row);
                }
                for p in 0..k {
                    let mut values = [$zero(); V];
                    for v in 0..V {
                        values[v] = $load(columns.add(v * $lanes));
                    }
                    for r in 0..R {
                        let factor = $splat(*rows[r].add(p * step));
                        for v in 0..V {
                            totals[r][v] = $multiply_add(factor, values[v], totals[r][v]);
                        }
                    }
                    columns = columns.add(V * $lanes);
                }
                for r in 0..R {
                    for v in 0..V {
                        $store(sums.add((r * V + v) * $lanes), totals[r][v]);
                    }
                }
            }
        };
    }

    kernels!(
        F32_AVX512,
        f32_avx512,
        "avx512f",
        f32,
        16,
        [1, 2, 4, 8],
        _mm512_setzero_ps,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_fmadd_ps
    );
    kernels!(
        F64_AVX512,
        f64_avx512,
        "avx512f",
        f64,
        8,
        [1, 2, 4, 8],
        _mm512_setzero_pd,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_fmadd_pd
    );
    kernels!(
        F32_AVX2,
        f32_avx2,
        "avx2,fma",
        f32,
        8,
        [1, 2, 4],
        _mm256_setzero_ps,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_fmadd_ps
    );
    kernels!(
        F64_AVX2,
        f64_avx2,
        "avx2,fma",
        f64,
        4,
        [1, 2, 4],
        _mm256_setzero_pd,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_fmadd_pd
    );
}
