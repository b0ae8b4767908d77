//! Repeating, reversing and rotating along dimensions.

use super::strided::{copy_strided, signed_strides};
use super::{full, ne, scatter_value, sub};
use candle::{bail, DType, Result, Tensor};

/// The differences of neighbours along `dim`; for bools, whether they differ.
pub fn diff(x: &Tensor, dim: usize) -> Result<Tensor> {
    let len = x.dim(dim)?.saturating_sub(1);
    let (before, after) = (
        x.narrow(dim, 0, len)?,
        x.narrow(dim, x.dim(dim)? - len, len)?,
    );
    match x.dtype() {
        DType::U8 => ne(&after, &before),
        _ => sub(&after, &before),
    }
}

/// The tensor itself, if its axis `dim` is longer than 1: torch's `squeeze` would take an axis of length 1 out, and all
/// that follows would be of another rank.
pub fn keep_axis(x: &Tensor, dim: usize) -> Result<Tensor> {
    if x.dim(dim)? == 1 {
        bail!(
            "squeeze: axis {dim} of {:?} has length 1 and would be taken out; the model was captured with a longer one",
            x.dims()
        )
    }
    Ok(x.clone())
}

/// Each element along `dim` `n` times in a row.
pub fn repeat_interleave(x: &Tensor, n: usize, dim: usize) -> Result<Tensor> {
    let mut shape = x.dims().to_vec();
    let (mut dims, mut strides) = (shape.clone(), signed_strides(x));
    dims.insert(dim + 1, n);
    strides.insert(dim + 1, 0);
    shape[dim] *= n;
    copy_strided("repeat_interleave", x, &dims, &strides, 0)?.reshape(shape)
}

/// The whole tensor as often along each dimension as `repeats` says; it may name more dimensions
/// than `x` has, which come first.
pub fn repeat(x: &Tensor, repeats: &[usize]) -> Result<Tensor> {
    let Some(new) = repeats.len().checked_sub(x.rank()) else {
        bail!("repeat: {repeats:?} for a tensor of shape {:?}", x.dims())
    };
    let (mut dims, mut strides, mut shape) = (vec![], vec![], vec![]);
    for (d, &n) in repeats.iter().enumerate() {
        let (size, stride) = match d.checked_sub(new) {
            Some(d) => (x.dims()[d], x.stride()[d] as isize),
            None => (1, 0),
        };
        dims.extend([n, size]);
        strides.extend([0, stride]);
        shape.push(n * size);
    }
    copy_strided("repeat", x, &dims, &strides, 0)?.reshape(shape)
}

/// `x.unfold(dim, size, step)`: windows along `dim`, whose elements become the last dimension.
pub fn unfold(x: &Tensor, dim: usize, size: usize, step: usize) -> Result<Tensor> {
    if x.rank() == 0 {
        return match size {
            0 | 1 => x.reshape(1)?.narrow(0, 0, size),
            _ => bail!("unfold: windows of {size} in a tensor without dimensions"),
        };
    }
    let Some(room) = x.dim(dim)?.checked_sub(size).filter(|_| step > 0) else {
        bail!(
            "unfold: windows of {size} in steps of {step} over {}",
            x.dim(dim)?
        )
    };
    let (mut dims, mut strides) = (x.dims().to_vec(), signed_strides(x));
    dims.push(size);
    strides.push(strides[dim]);
    dims[dim] = room / step + 1;
    strides[dim] *= step as isize;
    copy_strided("unfold", x, &dims, &strides, 0)
}

/// `x.expand(shape)`: a view in which dimensions of size one are repeated.
pub fn expand(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    x.broadcast_as(shape)
}

/// `x` reversed along `dims`.
pub fn flip(x: &Tensor, dims: &[usize]) -> Result<Tensor> {
    let mut strides = signed_strides(x);
    let mut shift = 0;
    for &dim in dims {
        let len = x.dim(dim)? as isize;
        shift += (len - 1).max(0) * strides[dim];
        strides[dim] = -strides[dim];
    }
    copy_strided("flip", x, x.dims(), &strides, shift)
}

/// `x` rotated by `shifts` along `dims`; along no dimension, rotated as a flat tensor.
pub fn roll(x: &Tensor, shifts: &[i64], dims: &[usize]) -> Result<Tensor> {
    if let (true, &[shift]) = (dims.is_empty(), shifts) {
        return roll(&x.flatten_all()?, &[shift], &[0])?.reshape(x.shape());
    }
    if shifts.len() != dims.len() {
        bail!("roll: shifts {shifts:?} for dimensions {dims:?}")
    }
    let mut x = x.clone();
    for (&shift, &dim) in shifts.iter().zip(dims) {
        let len = x.dim(dim)?;
        if len == 0 {
            continue;
        }
        let shift = shift.rem_euclid(len as i64) as usize;
        if shift > 0 {
            let end = x.narrow(dim, len - shift, shift)?;
            x = Tensor::cat(&[end, x.narrow(dim, 0, len - shift)?], dim)?;
        }
    }
    Ok(x)
}

/// `torch.nn.functional.one_hot(x, n)` (i64).
pub fn one_hot(x: &Tensor, n: usize) -> Result<Tensor> {
    let zeros = full(&[x.dims(), &[n]].concat(), 0.0, DType::I64, x.device())?;
    scatter_value(&zeros, x.rank(), &x.unsqueeze(x.rank())?, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle::Device;

    #[test]
    fn an_axis_that_squeeze_would_take_out_is_an_error() -> Result<()> {
        let x = Tensor::zeros((2, 1), DType::F32, &Device::Cpu)?;
        assert_eq!(keep_axis(&x, 0)?.dims(), [2, 1]);
        let error = keep_axis(&x, 1).unwrap_err().to_string();
        assert!(error.contains("axis 1 of [2, 1] has length 1"), "{error}");
        Ok(())
    }
}
