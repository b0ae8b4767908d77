//! Access to the values of CPU tensors, and the two types the kernels compute in.
//!
//! Half-precision tensors are widened to f32 before a kernel and rounded once after it.

use candle::{bail, DType, Device, Result, Storage, StorageRef, Tensor, WithDType};

/// A type that kernels compute in: f32 or f64.
pub(crate) trait Real: WithDType {
    const ZERO: Self;
    const ONE: Self;
    fn widen(self) -> f64;
    fn narrow(v: f64) -> Self;
    fn exp(self) -> Self;
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    #[inline(always)]
    fn widen(self) -> f64 {
        self as f64
    }
    #[inline(always)]
    fn narrow(v: f64) -> Self {
        v as f32
    }
    /// Within 1 ulp for arguments up to 88; branch-free, so that loops over it vectorise.
    /// Results below the smallest normal number are flushed to zero.
    #[inline(always)]
    fn exp(self) -> Self {
        const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer
        const LN2_HIGH: f32 = 0.693_359_4;
        const LN2_LOW: f32 = -2.121_944_4e-4;
        let x = if self < -88.0 { -88.0 } else { self };
        let shifted = x * std::f32::consts::LOG2_E + ROUND;
        let n = shifted - ROUND;
        let r = x - n * LN2_HIGH - n * LN2_LOW;
        let p = 1.987_569_1e-4_f32;
        let p = p * r + 1.398_199_9e-3;
        let p = p * r + 8.333_452e-3;
        let p = p * r + 4.166_579_6e-2;
        let p = p * r + 1.666_666_5e-1;
        let p = p * r + 5.000_000_1e-1;
        let p = p * r * r + r + 1.0;
        let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
        if self < -87.3 {
            0.0
        } else {
            p * scale
        }
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
    #[inline(always)]
    fn narrow(v: f64) -> Self {
        v
    }
    #[inline(always)]
    fn exp(self) -> Self {
        f64::exp(self)
    }
}

/// The type a kernel computes in for tensors of `dtype`.
pub(crate) fn compute_dtype(dtype: DType, op: &str) -> Result<DType> {
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 => Ok(DType::F32),
        DType::F64 => Ok(DType::F64),
        other => bail!("{op} is not implemented for {other:?}"),
    }
}

/// Evaluates an expression with `$T` bound to the Rust type of a compute dtype.
macro_rules! with_real {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            candle::DType::F64 => {
                type $T = f64;
                $body
            }
            _ => {
                type $T = f32;
                $body
            }
        }
    };
}
pub(crate) use with_real;

/// Evaluates an expression with `$T` bound to the Rust type of any dtype.
macro_rules! with_any {
    ($dtype:expr, $op:expr, $T:ident => $body:expr) => {
        match $dtype {
            candle::DType::U8 => {
                type $T = u8;
                $body
            }
            candle::DType::U32 => {
                type $T = u32;
                $body
            }
            candle::DType::I16 => {
                type $T = i16;
                $body
            }
            candle::DType::I32 => {
                type $T = i32;
                $body
            }
            candle::DType::I64 => {
                type $T = i64;
                $body
            }
            candle::DType::BF16 => {
                type $T = half::bf16;
                $body
            }
            candle::DType::F16 => {
                type $T = half::f16;
                $body
            }
            candle::DType::F32 => {
                type $T = f32;
                $body
            }
            candle::DType::F64 => {
                type $T = f64;
                $body
            }
            other => candle::bail!("{} is not implemented for {other:?}", $op),
        }
    };
}
pub(crate) use with_any;

/// The values of a CPU tensor, from its first element on; read with the tensor's strides.
pub(crate) struct View<'a> {
    storage: StorageRef<'a>,
    start: usize,
    len: Option<usize>,
}

impl<'a> View<'a> {
    /// A view for code that follows `x.stride()` itself.
    pub(crate) fn strided(x: &'a Tensor, op: &str) -> Result<Self> {
        let (storage, layout) = x.storage_and_layout();
        if !matches!(&*storage, Storage::Cpu(_)) {
            bail!("{op} is only implemented on the CPU");
        }
        Ok(Self {
            storage,
            start: layout.start_offset(),
            len: None,
        })
    }

    /// A view of exactly the elements of `x`, which has to be contiguous.
    pub(crate) fn contiguous(x: &'a Tensor, op: &str) -> Result<Self> {
        if !x.is_contiguous() {
            bail!("{op} needs a contiguous tensor");
        }
        let len = Some(x.elem_count());
        Ok(Self {
            len,
            ..Self::strided(x, op)?
        })
    }

    pub(crate) fn values<T: WithDType>(&self) -> Result<&[T]> {
        let Storage::Cpu(storage) = &*self.storage else {
            bail!("only implemented on the CPU");
        };
        let values = &T::cpu_storage_as_slice(storage)?[self.start..];
        Ok(match self.len {
            Some(len) => &values[..len],
            None => values,
        })
    }
}

/// Hands a contiguous copy of `x` (or `x` itself) to `f` as a slice of `T`, converting its dtype.
pub(crate) fn with_values<T: WithDType, R>(
    x: &Tensor,
    op: &str,
    f: impl FnOnce(&[T]) -> Result<R>,
) -> Result<R> {
    let x = x.to_dtype(T::DTYPE)?.contiguous()?;
    let view = View::contiguous(&x, op)?;
    f(view.values()?)
}

/// The values of an optional parameter as `T`; empty when there is none.
pub(crate) fn parameter<T: WithDType>(x: Option<&Tensor>) -> Result<Vec<T>> {
    match x {
        Some(x) => x.to_dtype(T::DTYPE)?.flatten_all()?.to_vec1(),
        None => Ok(vec![]),
    }
}

/// A CPU tensor of `dtype` from computed values.
pub(crate) fn tensor<T: WithDType>(
    values: Vec<T>,
    shape: &[usize],
    dtype: DType,
) -> Result<Tensor> {
    Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)
}

/// A pointer that several threads write through, each to its own elements.
#[derive(Clone, Copy)]
pub(crate) struct SharedMut<T>(*mut T);

// SAFETY: users write to disjoint elements only.
unsafe impl<T: Send> Send for SharedMut<T> {}
unsafe impl<T: Send> Sync for SharedMut<T> {}

impl<T> SharedMut<T> {
    pub(crate) fn new(values: &mut [T]) -> Self {
        Self(values.as_mut_ptr())
    }
    pub(crate) fn offset(self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }
}
