//! Normalisation layers in eval mode. Moments and the normalised values are computed in f64 and
//! rounded once.

use super::kernel::vectorised;
use super::real::{for_real, parameter, real_dtype, tensor_like, with_values, Real};
use candle::{bail, Result, Tensor, D};
use rayon::prelude::*;

/// Normalises over the last `rank` dims, with an optional elementwise weight and bias.
pub fn layer_norm(
    x: &Tensor,
    rank: usize,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<Tensor> {
    over_last_dims(x, rank, weight, bias, eps, Statistic::Variance)
}

/// Divides by the root mean square over the last `rank` dims.
pub fn rms_norm(x: &Tensor, rank: usize, weight: Option<&Tensor>, eps: f64) -> Result<Tensor> {
    over_last_dims(x, rank, weight, None, eps, Statistic::MeanSquare)
}

/// Normalises each of `groups` equal parts of the channels (dim 1) of every sample.
pub fn group_norm(
    x: &Tensor,
    groups: usize,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<Tensor> {
    let Some(&channels) = x.dims().get(1) else {
        bail!("group_norm needs at least two dims, got {:?}", x.shape());
    };
    if groups == 0 || channels % groups != 0 {
        bail!("group_norm: {channels} channels do not divide into {groups} groups");
    }
    check_parameters("group_norm", channels, [weight, bias])?;
    let plane: usize = x.dims()[2..].iter().product();
    let row = channels / groups * plane;
    if x.elem_count() == 0 {
        return Ok(x.clone());
    }
    if !x.device().is_cpu() {
        let rows = x.reshape((x.elem_count() / row, row))?;
        let y = normalised_rows(&rows, eps, Statistic::Variance)?.reshape(x.shape())?;
        return scaled(&y, &channel_shape(x), weight, bias)?.to_dtype(x.dtype());
    }
    for_real!(real_dtype("group_norm", x.dtype())?, T => {
        let (weight, bias) = (parameter::<T>(weight)?, parameter::<T>(bias)?);
        let y = with_values(x, |x| {
            let mut y = vec![T::ZERO; x.len()];
            y.par_chunks_mut(row).zip(x.par_chunks(row)).enumerate().for_each(|(i, (y, x))| {
                let (mean, scale) = Statistic::Variance.of(x, eps);
                let first = i % groups * (channels / groups);
                let planes = y.chunks_mut(plane).zip(x.chunks(plane));
                for (c, (y, x)) in planes.enumerate().map(|(c, planes)| (first + c, planes)) {
                    let weight = weight.get(c).map_or(1.0, |w| w.widen());
                    let bias = bias.get(c).map_or(0.0, |b| b.widen());
                    shift_scale(x, mean, scale, weight, bias, y);
                }
            });
            Ok(y)
        })?;
        tensor_like(x, y, x.dims())
    })
}

/// Normalises each channel (dim 1) with given statistics.
pub fn batch_norm(
    x: &Tensor,
    mean: &Tensor,
    var: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<Tensor> {
    let Some(&channels) = x.dims().get(1) else {
        bail!("batch_norm needs at least two dims, got {:?}", x.shape());
    };
    check_parameters("batch_norm", channels, [Some(mean), Some(var)])?;
    check_parameters("batch_norm", channels, [weight, bias])?;
    if x.elem_count() == 0 {
        return Ok(x.clone());
    }
    let dtype = real_dtype("batch_norm", x.dtype())?;
    if !x.device().is_cpu() {
        let shape = channel_shape(x);
        let (mean, var) = (mean.to_dtype(dtype)?, var.to_dtype(dtype)?);
        let scale = (var + eps)?.sqrt()?.recip()?.reshape(shape.as_slice())?;
        let y = x
            .to_dtype(dtype)?
            .broadcast_sub(&mean.reshape(shape.as_slice())?)?
            .broadcast_mul(&scale)?;
        return scaled(&y, &shape, weight, bias)?.to_dtype(x.dtype());
    }
    let plane: usize = x.dims()[2..].iter().product();
    let (mean, var) = (parameter::<f64>(Some(mean))?, parameter::<f64>(Some(var))?);
    let (weight, bias) = (parameter::<f64>(weight)?, parameter::<f64>(bias)?);
    let scales: Vec<f64> = var.iter().map(|var| 1.0 / (var + eps).sqrt()).collect();
    for_real!(dtype, T => {
        let y = with_values::<T, _>(x, |x| {
            let mut y = vec![T::ZERO; x.len()];
            y.par_chunks_mut(plane).zip(x.par_chunks(plane)).enumerate().with_min_len(64).for_each(
                |(i, (y, x))| {
                    let c = i % channels;
                    let weight = weight.get(c).copied().unwrap_or(1.0);
                    let bias = bias.get(c).copied().unwrap_or(0.0);
                    shift_scale(x, mean[c], scales[c], weight, bias, y);
                },
            );
            Ok(y)
        })?;
        tensor_like(x, y, x.dims())
    })
}

#[derive(Clone, Copy)]
enum Statistic {
    Variance,
    MeanSquare,
}

impl Statistic {
    /// What to subtract from the row and what to multiply it with.
    fn of<T: Real>(self, row: &[T], eps: f64) -> (f64, f64) {
        let count = row.len() as f64;
        let mean = match self {
            Self::Variance => sum(row) / count,
            Self::MeanSquare => 0.0,
        };
        let spread = squared_distance(row, mean) / count;
        (mean, 1.0 / (spread + eps).sqrt())
    }
}

fn over_last_dims(
    x: &Tensor,
    rank: usize,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    statistic: Statistic,
) -> Result<Tensor> {
    if rank > x.rank() {
        bail!("cannot normalise the last {rank} dims of {:?}", x.shape());
    }
    let dims = &x.dims()[x.rank() - rank..];
    let row: usize = dims.iter().product();
    check_parameters("a norm over the last dims", row, [weight, bias])?;
    if x.elem_count() == 0 {
        return Ok(x.clone());
    }
    if !x.device().is_cpu() {
        let rows = x.reshape((x.elem_count() / row, row))?;
        let y = normalised_rows(&rows, eps, statistic)?.reshape(x.shape())?;
        return scaled(&y, dims, weight, bias)?.to_dtype(x.dtype());
    }
    for_real!(real_dtype("a norm", x.dtype())?, T => {
        let (weight, bias) = (parameter::<T>(weight)?, parameter::<T>(bias)?);
        let y = with_values::<T, _>(x, |x| {
            let mut y = vec![T::ZERO; x.len()];
            y.par_chunks_mut(row).zip(x.par_chunks(row)).with_min_len(1024 / row + 1).for_each(
                |(y, x)| {
                    let (mean, scale) = statistic.of(x, eps);
                    normalise(x, mean, scale, &weight, &bias, y);
                },
            );
            Ok(y)
        })?;
        tensor_like(x, y, x.dims())
    })
}

fn check_parameters(op: &str, len: usize, parameters: [Option<&Tensor>; 2]) -> Result<()> {
    for parameter in parameters.into_iter().flatten() {
        if parameter.elem_count() != len {
            bail!(
                "{op}: a parameter has the shape {:?} for {len} values",
                parameter.shape()
            );
        }
    }
    Ok(())
}

const LANES: usize = 16;

pub(super) fn sum<T: Real>(row: &[T]) -> f64 {
    vectorised(
        #[inline(always)]
        || {
            let mut lanes = [0.0f64; LANES];
            let chunks = row.chunks_exact(LANES);
            let rest: f64 = chunks.remainder().iter().map(|v| v.widen()).sum();
            for chunk in chunks {
                for (lane, v) in lanes.iter_mut().zip(chunk) {
                    *lane += v.widen();
                }
            }
            lanes.iter().sum::<f64>() + rest
        },
    )
}

fn squared_distance<T: Real>(row: &[T], from: f64) -> f64 {
    vectorised(
        #[inline(always)]
        || {
            let mut lanes = [0.0f64; LANES];
            let chunks = row.chunks_exact(LANES);
            let rest: f64 = chunks
                .remainder()
                .iter()
                .map(|v| (v.widen() - from).powi(2))
                .sum();
            for chunk in chunks {
                for (lane, v) in lanes.iter_mut().zip(chunk) {
                    let distance = v.widen() - from;
                    *lane += distance * distance;
                }
            }
            lanes.iter().sum::<f64>() + rest
        },
    )
}

/// An empty weight means 1, an empty bias 0.
fn normalise<T: Real>(x: &[T], mean: f64, scale: f64, weight: &[T], bias: &[T], y: &mut [T]) {
    vectorised(
        #[inline(always)]
        || {
            let rows = y.iter_mut().zip(x);
            match (weight, bias) {
                ([], []) => rows.for_each(|(y, x)| *y = T::narrow((x.widen() - mean) * scale)),
                (weight, []) => rows
                    .zip(weight)
                    .for_each(|((y, x), w)| *y = T::narrow((x.widen() - mean) * scale * w.widen())),
                ([], bias) => rows
                    .zip(bias)
                    .for_each(|((y, x), b)| *y = T::narrow((x.widen() - mean) * scale + b.widen())),
                (weight, bias) => rows.zip(weight).zip(bias).for_each(|(((y, x), w), b)| {
                    *y = T::narrow((x.widen() - mean) * scale * w.widen() + b.widen())
                }),
            }
        },
    )
}

fn shift_scale<T: Real>(x: &[T], mean: f64, scale: f64, weight: f64, bias: f64, y: &mut [T]) {
    vectorised(
        #[inline(always)]
        || {
            let scale = scale * weight;
            for (y, x) in y.iter_mut().zip(x) {
                *y = T::narrow((x.widen() - mean) * scale + bias);
            }
        },
    )
}

/// What the kernels do, from candle's operations, for other devices.
fn normalised_rows(rows: &Tensor, eps: f64, statistic: Statistic) -> Result<Tensor> {
    let rows = rows.to_dtype(real_dtype("a norm", rows.dtype())?)?;
    let rows = match statistic {
        Statistic::Variance => rows.broadcast_sub(&rows.mean_keepdim(D::Minus1)?)?,
        Statistic::MeanSquare => rows,
    };
    let spread = rows.sqr()?.mean_keepdim(D::Minus1)?;
    rows.broadcast_div(&(spread + eps)?.sqrt()?)
}

fn scaled(
    y: &Tensor,
    shape: &[usize],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let mut y = y.clone();
    if let Some(weight) = weight {
        y = y.broadcast_mul(&weight.to_dtype(y.dtype())?.reshape(shape)?)?;
    }
    if let Some(bias) = bias {
        y = y.broadcast_add(&bias.to_dtype(y.dtype())?.reshape(shape)?)?;
    }
    Ok(y)
}

/// The shape in which a value per channel broadcasts against `x`.
fn channel_shape(x: &Tensor) -> Vec<usize> {
    let mut shape = vec![1; x.rank()];
    shape[1] = x.dims()[1];
    shape
}
