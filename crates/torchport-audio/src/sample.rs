//! The two types of samples, f32 and f64, and what is asked of every signal.

use candle::{bail, DType, Result, Tensor, WithDType};
use torchport_runtime::fourier;

pub(crate) trait Sample: fourier::Sample + WithDType {
    fn of(value: f64) -> Self;
    fn wide(self) -> f64;
    /// The size of a complex number, which neither overflows nor loses what is small.
    fn size(re: Self, im: Self) -> Self;
}

impl Sample for f32 {
    #[inline(always)]
    fn of(value: f64) -> Self {
        value as f32
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        self as f64
    }

    #[inline(always)]
    fn size(re: Self, im: Self) -> Self {
        let (re, im) = (re as f64, im as f64);
        (re * re + im * im).sqrt() as f32
    }
}

impl Sample for f64 {
    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }

    #[inline(always)]
    fn size(re: Self, im: Self) -> Self {
        re.hypot(im)
    }
}

/// Evaluates `$body` with `$T` naming the type of samples of a dtype that `sample_dtype` let pass.
macro_rules! for_sample {
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
pub(crate) use for_sample;

pub(crate) fn sample_dtype(name: &str, dtype: DType) -> Result<DType> {
    match dtype {
        DType::F32 | DType::F64 => Ok(dtype),
        _ => bail!(
            "{name}: samples are f32 or f64, and not {}; cast them first",
            dtype.as_str()
        ),
    }
}

/// A tensor of the dtype that a transform was made for.
pub(crate) fn must_be(name: &str, x: &Tensor, dtype: DType) -> Result<()> {
    if x.dtype() != dtype {
        bail!(
            "{name}: it was made for {} and is given {}",
            dtype.as_str(),
            x.dtype().as_str()
        )
    }
    Ok(())
}

/// The signals as rows of samples, and the dimensions before time.
pub(crate) fn signals<'a>(name: &str, x: &'a Tensor) -> Result<(Tensor, &'a [usize])> {
    let Some((&length, lead)) = x.dims().split_last() else {
        bail!("{name}: a single number is no signal, whose last dimension is time")
    };
    if length == 0 {
        bail!("{name}: a signal of no samples: {:?}", x.dims())
    }
    Ok((x.reshape((lead.iter().product::<usize>(), length))?, lead))
}

/// A shape of the dimensions before time and others after them.
pub(crate) fn shape(lead: &[usize], rest: &[usize]) -> Vec<usize> {
    [lead, rest].concat()
}
