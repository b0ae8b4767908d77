//! The two types that kernels compute in, f32 and f64, and the way from tensors to them and back.
//!
//! Half-precision tensors are widened to f32 before a kernel and rounded once after it. Tensors on
//! other devices are copied to the host and their results back.

use super::strided::contiguous;
use candle::{bail, DType, Device, Result, Storage, StorageRef, Tensor, WithDType};

pub(crate) trait Real: WithDType {
    const ZERO: Self;
    const ONE: Self;
    fn widen(self) -> f64;
    fn narrow(v: f64) -> Self;
    /// For numbers that are not above 0; loops over the f32 version vectorise.
    fn exp_of_negative(self) -> Self;
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

    /// Within about 1 ulp. Results below the smallest normal number become 0.
    #[inline(always)]
    fn exp_of_negative(self) -> Self {
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
        let p = p * r + 0.5;
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
    fn exp_of_negative(self) -> Self {
        self.exp()
    }
}

/// The dtype a kernel computes in for tensors of `dtype`, which has to be a float.
pub(crate) fn real_dtype(op: &str, dtype: DType) -> Result<DType> {
    match dtype {
        DType::F16 | DType::BF16 | DType::F32 => Ok(DType::F32),
        DType::F64 => Ok(DType::F64),
        _ => bail!("{op}: dtype {} is not supported", dtype.as_str()),
    }
}

/// Evaluates `$body` with `$T` naming the type of what `real_dtype` returned.
macro_rules! for_real {
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
pub(crate) use for_real;

/// Calls `f` with the elements of `x` in order, converted to `T`.
pub fn with_values<T: WithDType, R>(x: &Tensor, f: impl FnOnce(&[T]) -> Result<R>) -> Result<R> {
    let x = contiguous(&x.to_device(&Device::Cpu)?.to_dtype(T::DTYPE)?)?;
    let storage = Strided::new(&x);
    f(&storage.values()?[..x.elem_count()])
}

/// The values of an optional parameter; none without one.
pub(crate) fn parameter<T: WithDType>(x: Option<&Tensor>) -> Result<Vec<T>> {
    match x {
        Some(x) => with_values(x, |values| Ok(values.to_vec())),
        None => Ok(vec![]),
    }
}

/// A tensor of the dtype and on the device of `like`.
pub fn tensor_like<T: WithDType>(like: &Tensor, values: Vec<T>, shape: &[usize]) -> Result<Tensor> {
    Tensor::from_vec(values, shape, &Device::Cpu)?
        .to_dtype(like.dtype())?
        .to_device(like.device())
}

/// The storage of a tensor in memory, for code that follows its strides.
pub(crate) struct Strided<'a> {
    storage: StorageRef<'a>,
    start: usize,
}

impl<'a> Strided<'a> {
    pub(crate) fn new(x: &'a Tensor) -> Self {
        let (storage, layout) = x.storage_and_layout();
        let start = layout.start_offset();
        Self { storage, start }
    }

    /// Everything from the tensor's first element on.
    pub(crate) fn values<T: WithDType>(&self) -> Result<&[T]> {
        let Storage::Cpu(storage) = &*self.storage else {
            bail!("the tensor is not in memory");
        };
        // An empty tensor may start behind the end of its storage.
        let values = T::cpu_storage_as_slice(storage)?.get(self.start..);
        Ok(values.unwrap_or_default())
    }
}

/// A pointer that several threads write through, each to its own elements.
#[derive(Clone, Copy)]
pub(crate) struct SharedMut<T>(*mut T);

// SAFETY: the users of `offset` write to disjoint elements.
unsafe impl<T: Send> Send for SharedMut<T> {}
unsafe impl<T: Send> Sync for SharedMut<T> {}

impl<T> SharedMut<T> {
    pub(crate) fn new(values: &mut [T]) -> Self {
        Self(values.as_mut_ptr())
    }

    pub(crate) fn offset(self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }

    pub(crate) fn from(self, index: usize) -> Self {
        Self(self.offset(index))
    }
}
