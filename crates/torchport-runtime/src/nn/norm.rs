//! `torch.nn.LayerNorm`, `RMSNorm`, `GroupNorm` and `BatchNorm` (at inference, of any rank).

use crate::check::Probe;
use crate::ops;
use candle::{Module, Result, Shape, Tensor};
use candle_nn::VarBuilder;

#[derive(Debug, Clone)]
pub struct LayerNorm {
    probe: Probe,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
    rank: usize,
    eps: f64,
}

impl Module for LayerNorm {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        let xs = self.probe.input(0, xs)?;
        let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
        let ys = ops::layer_norm(&xs, self.rank, weight, bias, self.eps)?;
        self.probe.output(ys)
    }
}

pub fn layer_norm(
    normalized_shape: impl Into<Shape>,
    eps: f64,
    vb: VarBuilder,
) -> Result<LayerNorm> {
    let shape = normalized_shape.into();
    let bias = vb.get(&shape, "bias")?;
    let norm = layer_norm_no_bias(shape, eps, vb)?;
    Ok(LayerNorm {
        bias: Some(bias),
        ..norm
    })
}

pub fn layer_norm_no_bias(
    normalized_shape: impl Into<Shape>,
    eps: f64,
    vb: VarBuilder,
) -> Result<LayerNorm> {
    let shape = normalized_shape.into();
    let weight = vb.get(&shape, "weight")?;
    let norm = layer_norm_no_affine(shape, eps, vb)?;
    Ok(LayerNorm {
        weight: Some(weight),
        ..norm
    })
}

pub fn layer_norm_no_affine(
    normalized_shape: impl Into<Shape>,
    eps: f64,
    vb: VarBuilder,
) -> Result<LayerNorm> {
    Ok(LayerNorm {
        probe: Probe::new(&vb),
        weight: None,
        bias: None,
        rank: normalized_shape.into().rank(),
        eps,
    })
}

#[derive(Debug, Clone)]
pub struct RmsNorm {
    probe: Probe,
    weight: Option<Tensor>,
    rank: usize,
    eps: f64,
}

impl Module for RmsNorm {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        let xs = self.probe.input(0, xs)?;
        let ys = ops::rms_norm(&xs, self.rank, self.weight.as_ref(), self.eps)?;
        self.probe.output(ys)
    }
}

pub fn rms_norm(normalized_shape: impl Into<Shape>, eps: f64, vb: VarBuilder) -> Result<RmsNorm> {
    let shape = normalized_shape.into();
    let weight = vb.get(&shape, "weight")?;
    let norm = rms_norm_no_affine(shape, eps, vb)?;
    Ok(RmsNorm {
        weight: Some(weight),
        ..norm
    })
}

pub fn rms_norm_no_affine(
    normalized_shape: impl Into<Shape>,
    eps: f64,
    vb: VarBuilder,
) -> Result<RmsNorm> {
    Ok(RmsNorm {
        probe: Probe::new(&vb),
        weight: None,
        rank: normalized_shape.into().rank(),
        eps,
    })
}

#[derive(Debug, Clone)]
pub struct GroupNorm {
    probe: Probe,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
    groups: usize,
    eps: f64,
}

impl Module for GroupNorm {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        let xs = self.probe.input(0, xs)?;
        let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
        let ys = ops::group_norm(&xs, self.groups, weight, bias, self.eps)?;
        self.probe.output(ys)
    }
}

pub fn group_norm(groups: usize, channels: usize, eps: f64, vb: VarBuilder) -> Result<GroupNorm> {
    let weight = vb.get(channels, "weight")?;
    let bias = vb.get(channels, "bias")?;
    let norm = group_norm_no_affine(groups, channels, eps, vb)?;
    Ok(GroupNorm {
        weight: Some(weight),
        bias: Some(bias),
        ..norm
    })
}

pub fn group_norm_no_affine(
    groups: usize,
    channels: usize,
    eps: f64,
    vb: VarBuilder,
) -> Result<GroupNorm> {
    if groups == 0 || !channels.is_multiple_of(groups) {
        candle::bail!("{channels} channels do not divide into {groups} groups")
    }
    Ok(GroupNorm {
        probe: Probe::new(&vb),
        weight: None,
        bias: None,
        groups,
        eps,
    })
}

#[derive(Debug, Clone)]
pub struct BatchNorm {
    probe: Probe,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Option<Tensor>,
    bias: Option<Tensor>,
    eps: f64,
}

impl Module for BatchNorm {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        let xs = self.probe.input(0, xs)?;
        let (mean, var) = (&self.running_mean, &self.running_var);
        let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
        let ys = ops::batch_norm(&xs, mean, var, weight, bias, self.eps)?;
        self.probe.output(ys)
    }
}

pub fn batch_norm(channels: usize, eps: f64, vb: VarBuilder) -> Result<BatchNorm> {
    let weight = vb.get(channels, "weight")?;
    let bias = vb.get(channels, "bias")?;
    let norm = batch_norm_no_affine(channels, eps, vb)?;
    Ok(BatchNorm {
        weight: Some(weight),
        bias: Some(bias),
        ..norm
    })
}

pub fn batch_norm_no_affine(channels: usize, eps: f64, vb: VarBuilder) -> Result<BatchNorm> {
    Ok(BatchNorm {
        probe: Probe::new(&vb),
        running_mean: vb.get(channels, "running_mean")?,
        running_var: vb.get(channels, "running_var")?,
        weight: None,
        bias: None,
        eps,
    })
}
