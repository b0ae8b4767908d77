//! Access to the elements of tensors in memory, and the loops that the operations share: parallel
//! over chunks when there is enough to do, and compiled for the vector units of the CPU at hand.

use super::strided::Walk;
use candle::{bail, DType, Device, Layout, Result, Storage, Tensor, WithDType};
use rayon::prelude::*;

/// With fewer elements than this, waking other threads costs more than it saves.
const PARALLEL_FROM: usize = 1 << 15;
const SMALLEST_CHUNK: usize = 1 << 12;

/// Evaluates `$body` with `$t` naming the element type that belongs to `$dtype`.
macro_rules! for_dtype {
    ($op:expr, $dtype:expr, $t:ident => $body:expr) => {
        $crate::ops::kernel::for_dtype!(@ $op, $dtype, $t => $body;
            U8 u8, U32 u32, I16 i16, I32 i32, I64 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64)
    };
    (@ $op:expr, $dtype:expr, $t:ident => $body:expr; $($variant:ident $ty:ty),*) => {
        match $dtype {
            $(candle::DType::$variant => {
                type $t = $ty;
                $body
            })*
            other => candle::bail!("{}: dtype {} is not supported", $op, other.as_str()),
        }
    };
}
pub(crate) use for_dtype;

/// Calls `f` with the storage behind `x` and the layout that says where its elements are.
/// A tensor on another device is copied to the host.
pub(crate) fn with_storage<T: WithDType, R>(
    x: &Tensor,
    f: impl FnOnce(&[T], &Layout) -> Result<R>,
) -> Result<R> {
    let x = x.to_device(&Device::Cpu)?;
    let (storage, layout) = x.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => f(T::cpu_storage_as_slice(storage)?, layout),
        _ => bail!("a tensor copied to the host is still on {:?}", x.device()),
    }
}

/// Calls `f` with the elements of `x` in order.
pub(crate) fn with_slice<T: WithDType, R>(
    x: &Tensor,
    f: impl FnOnce(&[T]) -> Result<R>,
) -> Result<R> {
    let x = super::contiguous(x)?;
    with_storage(&x, |data, layout| match layout.contiguous_offsets() {
        // An empty tensor may start behind the end of its storage.
        Some((start, end)) => f(data.get(start..end).unwrap_or_default()),
        None => bail!("a contiguous copy is not contiguous"),
    })
}

/// A vector of `len` elements which `f` fills: it gets the position of a chunk and the chunk.
/// Chunks begin at multiples of `unit`, and are handled in parallel when there are many elements.
pub(crate) fn fill<T: WithDType>(
    len: usize,
    unit: usize,
    f: impl Fn(usize, &mut [T]) + Sync,
) -> Vec<T> {
    let mut out = vec![T::from_f64(0.0); len];
    fill_slice(&mut out, unit, 1, f);
    out
}

/// Like `fill` for a slice of which each element takes `weight` times the usual work.
pub(crate) fn fill_slice<T: Send>(
    out: &mut [T],
    unit: usize,
    weight: usize,
    f: impl Fn(usize, &mut [T]) + Sync,
) {
    let (unit, weight) = (unit.max(1), weight.max(1));
    let threads = rayon::current_num_threads();
    if out.len() <= unit || out.len().saturating_mul(weight) < PARALLEL_FROM || threads == 1 {
        return f(0, out);
    }
    let chunk = (out.len() / (4 * threads))
        .max(SMALLEST_CHUNK / weight)
        .max(1);
    fill_chunks(out, chunk.div_ceil(unit) * unit, &f);
}

/// Not generic in `f`, so that rayon is compiled once per type only.
fn fill_chunks<T: Send>(out: &mut [T], chunk: usize, f: &(dyn Fn(usize, &mut [T]) + Sync)) {
    out.par_chunks_mut(chunk)
        .enumerate()
        .for_each(|(i, out)| f(i * chunk, out));
}

/// Runs `f` compiled for the widest vector unit that this CPU has. What `f` calls must be inlined
/// into it (`#[inline(always)]`) to be compiled that way too.
#[inline(always)]
pub(crate) fn vectorised<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        unsafe fn avx512<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        #[target_feature(enable = "avx2,fma")]
        unsafe fn avx2<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        let has_avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        // Safety: the CPU has the features that the function is compiled for.
        if has_fma() && has_avx512 {
            return unsafe { avx512(f) };
        }
        if has_fma() {
            return unsafe { avx2(f) };
        }
    }
    f()
}

/// Whether what runs in `vectorised` has fused multiplications.
#[inline(always)]
pub(crate) fn has_fma() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

/// `f` of every element.
pub(crate) fn map<T: WithDType, O: WithDType>(
    x: &Tensor,
    f: impl Fn(T) -> O + Sync,
) -> Result<Tensor> {
    map_rows(x, |out, data, stride| match stride {
        0 => out.fill(f(data[0])),
        1 => out.iter_mut().zip(data).for_each(|(o, &v)| *o = f(v)),
        _ => {
            let data = data.iter().step_by(stride);
            out.iter_mut().zip(data).for_each(|(o, &v)| *o = f(v));
        }
    })
}

/// `map` for functions that gain from wide vectors.
pub(crate) fn map_vectorised<T: WithDType, O: WithDType>(
    x: &Tensor,
    f: impl Fn(T) -> O + Sync,
) -> Result<Tensor> {
    let x = super::contiguous(x)?;
    map_rows(&x, |out, data, _| {
        vectorised(
            #[inline(always)]
            || {
                for (o, &v) in out.iter_mut().zip(data) {
                    *o = f(v);
                }
            },
        )
    })
}

/// Calls `f` with a run of the output, and where in the input it comes from: from the first element
/// on, with a stride.
fn map_rows<T: WithDType, O: WithDType>(
    x: &Tensor,
    f: impl Fn(&mut [O], &[T], usize) + Sync,
) -> Result<Tensor> {
    let out = with_storage(x, |data: &[T], layout| {
        let walk = Walk::over(layout.dims(), [layout]);
        let [stride] = walk.inner_strides();
        Ok(fill(x.elem_count(), 1, |start, out: &mut [O]| {
            walk.segments(start, out.len(), |range, [offset]| {
                f(&mut out[range], &data[offset..], stride as usize)
            })
        }))
    })?;
    Tensor::from_vec(out, x.shape(), x.device())
}

/// `f` of every pair of elements, after broadcasting.
pub(crate) fn zip<A: WithDType, B: WithDType, O: WithDType>(
    a: &Tensor,
    b: &Tensor,
    f: impl Fn(A, B) -> O + Sync,
) -> Result<Tensor> {
    let shape = broadcast_shape(a.dims(), b.dims())?;
    let (a, b) = (a.broadcast_as(&*shape)?, b.broadcast_as(&*shape)?);
    let out = with_storage(&a, |left: &[A], la| {
        with_storage(&b, |right: &[B], lb| {
            let walk = Walk::over(&shape, [la, lb]);
            let strides = walk.inner_strides();
            Ok(fill(a.elem_count(), 1, |start, out: &mut [O]| {
                walk.segments(start, out.len(), |range, [i, j]| {
                    zip_row(&mut out[range], &left[i..], &right[j..], strides, &f)
                })
            }))
        })
    })?;
    Tensor::from_vec(out, shape, a.device())
}

fn zip_row<A: Copy, B: Copy, O>(
    out: &mut [O],
    a: &[A],
    b: &[B],
    strides: [isize; 2],
    f: &impl Fn(A, B) -> O,
) {
    let len = out.len();
    match strides {
        [1, 1] => {
            let pairs = a[..len].iter().zip(&b[..len]);
            vectorised(
                #[inline(always)]
                || {
                    for (o, (&a, &b)) in out.iter_mut().zip(pairs) {
                        *o = f(a, b);
                    }
                },
            )
        }
        [1, 0] => {
            let b = b[0];
            for (o, &a) in out.iter_mut().zip(&a[..len]) {
                *o = f(a, b);
            }
        }
        [0, 1] => {
            let a = a[0];
            for (o, &b) in out.iter_mut().zip(&b[..len]) {
                *o = f(a, b);
            }
        }
        [step_a, step_b] => {
            for (i, o) in out.iter_mut().enumerate() {
                *o = f(a[i * step_a as usize], b[i * step_b as usize]);
            }
        }
    }
}

/// The shape that two operands have after broadcasting.
pub(crate) fn broadcast_shape(a: &[usize], b: &[usize]) -> Result<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |dims: &[usize], i: usize| match (i + dims.len()).checked_sub(rank) {
        Some(i) => dims[i],
        None => 1,
    };
    (0..rank)
        .map(|i| match (at(a, i), at(b, i)) {
            (m, n) if m == n || n == 1 => Ok(m),
            (1, n) => Ok(n),
            _ => bail!("shapes {a:?} and {b:?} cannot be broadcast together"),
        })
        .collect()
}

/// The dtype in which floating point functions of `dtype` are computed: what torch does, too.
pub(crate) fn float_compute_dtype(op: &str, dtype: DType) -> Result<DType> {
    match dtype {
        DType::F64 => Ok(DType::F64),
        DType::F32 | DType::F16 | DType::BF16 => Ok(DType::F32),
        _ if dtype.is_int() => Ok(DType::F32),
        _ => bail!("{op}: dtype {} is not supported", dtype.as_str()),
    }
}

/// The dtype in which arithmetic on `dtype` is computed; the way back is exact, or wraps as torch does.
pub(crate) fn compute_dtype(op: &str, dtype: DType) -> Result<DType> {
    match dtype {
        _ if dtype.is_int() => Ok(DType::I64),
        _ => float_compute_dtype(op, dtype),
    }
}
