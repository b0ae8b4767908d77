//! Elements by their rank along a dimension: the k-th, the median, the most frequent.

use super::{contiguous, full, gather, isnan, sort, sum, to_dtype};
use candle::{bail, DType, Result, Tensor};

/// The element at place `k` (from 1) in ascending order along `dim`, and its index (i64).
pub fn kthvalue(x: &Tensor, k: usize, dim: usize, keepdim: bool) -> Result<(Tensor, Tensor)> {
    if x.rank() == 0 {
        return flat(x, |x| kthvalue(x, k, 0, false));
    }
    if k == 0 || k > x.dim(dim)? {
        bail!("kthvalue: place {k} of {}", x.dim(dim)?)
    }
    let (values, order) = sort(x, dim, false)?;
    let at = |y: Tensor| kept(y.narrow(dim, k - 1, 1)?, dim, keepdim);
    Ok((at(values)?, at(order)?))
}

/// The median along `dim`, the lower one of an even number, and its index (i64); not a number wins.
pub fn median(x: &Tensor, dim: usize, keepdim: bool) -> Result<(Tensor, Tensor)> {
    middle(x, dim, keepdim, true)
}

/// Like `median`, of the elements that are numbers.
pub fn nanmedian(x: &Tensor, dim: usize, keepdim: bool) -> Result<(Tensor, Tensor)> {
    middle(x, dim, keepdim, false)
}

/// The median of all elements. That of none is not a number, or the least integer.
pub fn median_of_all(x: &Tensor) -> Result<Tensor> {
    middle_of_all(x, true)
}

/// Like `median_of_all`, of the elements that are numbers.
pub fn nanmedian_of_all(x: &Tensor) -> Result<Tensor> {
    middle_of_all(x, false)
}

fn middle_of_all(x: &Tensor, nan_wins: bool) -> Result<Tensor> {
    if x.elem_count() == 0 {
        let none = if x.dtype().is_float() {
            f64::NAN
        } else {
            f64::MIN
        };
        return full(&[], none, x.dtype(), x.device());
    }
    Ok(middle(&x.flatten_all()?, 0, false, nan_wins)?.0)
}

fn middle(x: &Tensor, dim: usize, keepdim: bool, nan_wins: bool) -> Result<(Tensor, Tensor)> {
    if x.rank() == 0 {
        return flat(x, |x| middle(x, 0, false, nan_wins));
    }
    let len = x.dim(dim)? as i64;
    if len == 0 {
        bail!(
            "median: no elements along dimension {dim} of {:?}",
            x.dims()
        )
    }
    let (values, order) = sort(x, dim, false)?;
    // Behind the numbers come those that are none.
    let absent = sum(&to_dtype(&isnan(x)?, DType::I64)?, &[dim], true)?;
    let absent_data = absent.flatten_all()?.to_vec1::<i64>()?;
    let places = absent_data
        .iter()
        .map(|&n| match (n, nan_wins) {
            (0, _) => (len - 1) / 2,
            (n, true) => len - n,
            (n, false) => (len - n - 1).max(0) / 2,
        })
        .collect::<Vec<_>>();
    let places = Tensor::from_vec(places, absent.shape(), x.device())?;
    let at = |y: &Tensor| kept(gather(y, dim, &places)?, dim, keepdim);
    Ok((at(&values)?, at(&order)?))
}

/// The most frequent element along `dim`, the smallest of several, and the last index of it (i64).
pub fn mode(x: &Tensor, dim: usize, keepdim: bool) -> Result<(Tensor, Tensor)> {
    if x.rank() == 0 {
        return flat(x, |x| mode(x, 0, false));
    }
    let last = x.rank() - 1;
    let len = x.dim(dim)?;
    if len == 0 {
        bail!("mode: no elements along dimension {dim} of {:?}", x.dims())
    }
    let (values, order) = sort(&contiguous(&x.transpose(dim, last)?)?, last, false)?;
    // In their own dtype, for large integers are not exact in floating point.
    let repeats = values
        .narrow(last, 1, len - 1)?
        .eq(&values.narrow(last, 0, len - 1)?)?
        .flatten_all()?
        .to_vec1::<u8>()?;
    let rows = values.elem_count() / len;
    let mut places = vec![];
    for row in 0..rows {
        let (mut best, mut most, mut run) = (0, 0, 0);
        for i in 0..len {
            run = if i > 0 && repeats[row * (len - 1) + i - 1] == 1 {
                run + 1
            } else {
                1
            };
            if run > most {
                (best, most) = (i, run);
            }
        }
        places.push(best as i64);
    }
    let mut shape = values.dims().to_vec();
    shape[last] = 1;
    let places = Tensor::from_vec(places, shape, x.device())?;
    let at = |y: &Tensor| {
        kept(
            gather(y, last, &places)?.transpose(dim, last)?,
            dim,
            keepdim,
        )
    };
    Ok((at(&values)?, at(&order)?))
}

fn kept(y: Tensor, dim: usize, keepdim: bool) -> Result<Tensor> {
    match keepdim {
        true => Ok(y),
        false => y.squeeze(dim),
    }
}

/// What is computed for one row, for a tensor without dimensions.
fn flat(x: &Tensor, f: impl Fn(&Tensor) -> Result<(Tensor, Tensor)>) -> Result<(Tensor, Tensor)> {
    let (values, places) = f(&x.reshape(1)?)?;
    Ok((values.reshape(())?, places.reshape(())?))
}
