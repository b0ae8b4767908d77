//! Conversion between dtypes with torch's rounding and wrapping.

use super::kernel::{fill, for_dtype, map, map_vectorised, with_slice};
use candle::{DType, Result, Tensor, WithDType};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use std::hint::select_unpredictable;

/// Element types and how torch converts them: integers wrap, a floating point number is cut to an
/// integer and then wraps, the half types are reached through f32.
pub(crate) trait Element: WithDType + Default {
    fn to_i64(self) -> i64;
    fn to_f32(self) -> f32;
    fn cast_f64(self) -> f64;
    fn from_i64(v: i64) -> Self;
    fn from_f32(v: f32) -> Self;
    fn cast_from_f64(v: f64) -> Self;
    fn is_nonzero(self) -> bool;
    /// The sum as torch rounds or wraps it.
    fn plus(self, other: Self) -> Self;
}

macro_rules! integer_element {
    ($($ty:ty, $through:ty);*) => {$(
        impl Element for $ty {
            #[inline(always)]
            fn to_i64(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }
            #[inline(always)]
            fn cast_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn from_i64(v: i64) -> Self {
                v as $ty
            }
            #[inline(always)]
            fn from_f32(v: f32) -> Self {
                <$through>::truncate(v as f64) as $ty
            }
            #[inline(always)]
            fn cast_from_f64(v: f64) -> Self {
                <$through>::truncate(v) as $ty
            }
            #[inline(always)]
            fn is_nonzero(self) -> bool {
                self != 0
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}
integer_element!(u8, i32; u32, i64; i16, i32; i32, i32; i64, i64);

macro_rules! float_element {
    ($($ty:ty, $to_f32:expr, $to_f64:expr, $from_f32:expr, $from_f64:expr);* $(;)?) => {$(
        impl Element for $ty {
            #[inline(always)]
            fn to_i64(self) -> i64 {
                i64::truncate($to_f64(self))
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                $to_f32(self)
            }
            #[inline(always)]
            fn cast_f64(self) -> f64 {
                $to_f64(self)
            }
            #[inline(always)]
            fn from_i64(v: i64) -> Self {
                $from_f32(v as f32)
            }
            #[inline(always)]
            fn from_f32(v: f32) -> Self {
                $from_f32(v)
            }
            #[inline(always)]
            fn cast_from_f64(v: f64) -> Self {
                $from_f64(v)
            }
            #[inline(always)]
            fn is_nonzero(self) -> bool {
                $to_f32(self) != 0.0
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
        }
    )*};
}
float_element!(
    f32, |v: f32| v, |v: f32| v as f64, |v: f32| v, |v: f64| v as f32;
    f16, f16::to_f32, f16::to_f64, f16::from_f32, |v: f64| f16::from_f32(v as f32);
    bf16, bf16::to_f32, bf16::to_f64, round_to_bf16, |v: f64| round_to_bf16(v as f32);
);

/// To nearest, halves to even; without jumps, other than in the `half` crate.
#[inline(always)]
fn round_to_bf16(v: f32) -> bf16 {
    let bits = v.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    bf16::from_bits(select_unpredictable(v.is_nan(), quiet, rounded) as u16)
}

impl Element for f64 {
    #[inline(always)]
    fn to_i64(self) -> i64 {
        i64::truncate(self)
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self as f32
    }
    #[inline(always)]
    fn cast_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn from_i64(v: i64) -> Self {
        v as f64
    }
    #[inline(always)]
    fn from_f32(v: f32) -> Self {
        v as f64
    }
    #[inline(always)]
    fn cast_from_f64(v: f64) -> Self {
        v
    }
    #[inline(always)]
    fn is_nonzero(self) -> bool {
        self != 0.0
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

/// Cuts off the fraction. Like the instructions that torch compiles to, not a number and what is
/// out of range give the smallest integer.
trait Truncate {
    fn truncate(v: f64) -> Self;
}

macro_rules! truncate {
    ($($ty:ty, $limit:expr);*) => {$(
        impl Truncate for $ty {
            #[inline(always)]
            fn truncate(v: f64) -> Self {
                if v > -$limit - 1.0 && v < $limit {
                    v as $ty
                } else {
                    <$ty>::MIN
                }
            }
        }
    )*};
}
truncate!(i32, 2_147_483_648.0; i64, 9_223_372_036_854_775_808.0);

/// A Python number as torch passes it on for a tensor of `dtype`.
pub(crate) fn round_to(value: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => value as f32 as f64,
        DType::F16 => f16::cast_from_f64(value).cast_f64(),
        DType::BF16 => bf16::cast_from_f64(value).cast_f64(),
        _ => value,
    }
}

/// `x.to(dtype)`.
pub fn to_dtype(x: &Tensor, dtype: DType) -> Result<Tensor> {
    use DType::{F16, F32, F64, F8E4M3, I64};
    match (x.dtype(), dtype) {
        (from, to) if from == to => Ok(x.clone()),
        // candle hangs on f8 -> f64.
        (F8E4M3, F32) => x.to_dtype(F32),
        (F8E4M3, _) => to_dtype(&x.to_dtype(F32)?, dtype),
        (F32, F8E4M3) => x.to_dtype(F8E4M3),
        (_, F8E4M3) => to_dtype(x, F32)?.to_dtype(F8E4M3),
        (F32, F16) => f32_to_f16(x),
        (F16, F32) => f16_to_f32(x),
        (F32, _) => {
            // Named in full, as the half types have a `from_f32` of their own.
            for_dtype!("to_dtype", dtype, T => map_vectorised(x, #[inline(always)] |v: f32| <T as Element>::from_f32(v)))
        }
        (F64, _) => {
            for_dtype!("to_dtype", dtype, T => map(x, |v: f64| <T as Element>::cast_from_f64(v)))
        }
        (I64, _) => {
            for_dtype!("to_dtype", dtype, T => map(x, |v: i64| <T as Element>::from_i64(v)))
        }
        (from, F32) => {
            for_dtype!("to_dtype", from, S => map_vectorised(x, #[inline(always)] |v: S| v.to_f32()))
        }
        (from, F64) => for_dtype!("to_dtype", from, S => map(x, |v: S| v.cast_f64())),
        (from, I64) => for_dtype!("to_dtype", from, S => map(x, |v: S| v.to_i64())),
        (from, _) if from.is_int() => to_dtype(&to_dtype(x, I64)?, dtype),
        _ => to_dtype(&to_dtype(x, F32)?, dtype),
    }
}

// The half crate uses the CPU's own conversions, for whole slices only.

fn f32_to_f16(x: &Tensor) -> Result<Tensor> {
    let out = with_slice(x, |data: &[f32]| {
        Ok(fill(data.len(), 1, |start, out: &mut [f16]| {
            out.convert_from_f32_slice(&data[start..start + out.len()])
        }))
    })?;
    Tensor::from_vec(out, x.shape(), x.device())
}

fn f16_to_f32(x: &Tensor) -> Result<Tensor> {
    let out = with_slice(x, |data: &[f16]| {
        Ok(fill(data.len(), 1, |start, out: &mut [f32]| {
            data[start..start + out.len()].convert_to_f32_slice(out)
        }))
    })?;
    Tensor::from_vec(out, x.shape(), x.device())
}

/// `x.to(torch.bool)`: one where `x` is not zero.
pub fn to_bool(x: &Tensor) -> Result<Tensor> {
    for_dtype!("to_bool", x.dtype(), T => map(x, |v: T| v.is_nonzero() as u8))
}
