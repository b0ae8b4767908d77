//! Normalisation as in training: by the statistics of the batch at hand.

use super::{add, add_scalar, batch_norm, mean, mul_scalar, rsqrt, to_dtype, var};
use candle::{bail, DType, Result, Tensor};

/// `x` normalised by the mean and variance of each channel; these as the mean and the reciprocal standard
/// deviation; and the running statistics after this batch.
pub fn batch_norm_in_training(
    x: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: &Tensor,
    running_var: &Tensor,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor, Tensor, Tensor)> {
    let wide = match x.dtype() {
        DType::F16 | DType::BF16 => to_dtype(x, DType::F32)?,
        _ => x.clone(),
    };
    let others = (0..x.rank()).filter(|&d| d != 1).collect::<Vec<_>>();
    let count = others.iter().map(|&d| x.dims()[d]).product::<usize>();
    if count < 2 {
        bail!(
            "batch norm in training needs more than one value of each channel, got {:?}",
            x.dims()
        )
    }
    let (mean, variance) = (
        mean(&wide, &others, false)?,
        var(&wide, &others, 0.0, false)?,
    );
    let after = |kept: &Tensor, now: &Tensor, factor: f64| {
        let now = to_dtype(&mul_scalar(now, momentum * factor)?, kept.dtype())?;
        add(&mul_scalar(kept, 1.0 - momentum)?, &now)
    };
    let unbiased = count as f64 / (count - 1) as f64;
    let new_mean = after(running_mean, &mean, 1.0)?;
    let new_var = after(running_var, &variance, unbiased)?;
    let reciprocal = rsqrt(&add_scalar(&variance, eps)?)?;
    let y = batch_norm(&wide, &mean, &variance, weight, bias, eps)?;
    Ok((
        to_dtype(&y, x.dtype())?,
        mean,
        reciprocal,
        new_mean,
        new_var,
    ))
}
