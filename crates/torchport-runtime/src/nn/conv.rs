//! `torch.nn.Conv1d`, `Conv2d` and `Conv3d`: one type for any number of spatial axes.

use crate::check::Probe;
use crate::ops::{self, PadMode};
use candle::{Module, Result, Tensor};
use candle_nn::VarBuilder;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConvConfig<const N: usize> {
    pub stride: [usize; N],
    pub padding: [usize; N],
    pub dilation: [usize; N],
    pub groups: usize,
    pub padding_mode: PadMode,
}

impl<const N: usize> Default for ConvConfig<N> {
    fn default() -> Self {
        Self {
            stride: [1; N],
            padding: [0; N],
            dilation: [1; N],
            groups: 1,
            padding_mode: PadMode::Zeros,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Conv<const N: usize> {
    probe: Probe,
    weight: Tensor,
    bias: Option<Tensor>,
    cfg: ConvConfig<N>,
}

pub type Conv1d = Conv<1>;
pub type Conv2d = Conv<2>;
pub type Conv3d = Conv<3>;

impl<const N: usize> Conv<N> {
    fn new(
        in_channels: usize,
        out_channels: usize,
        kernel: [usize; N],
        cfg: ConvConfig<N>,
        bias: bool,
        vb: VarBuilder,
    ) -> Result<Self> {
        let shape = kernel_shape(out_channels, in_channels, cfg.groups, kernel)?;
        let weight = vb.get(shape, "weight")?;
        let bias = bias.then(|| vb.get(out_channels, "bias")).transpose()?;
        let probe = Probe::new(&vb);
        Ok(Self {
            probe,
            weight,
            bias,
            cfg,
        })
    }

    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }

    /// Only zeros are padded by the convolution itself.
    fn pad(&self, xs: Tensor) -> Result<(Tensor, [usize; N])> {
        let ConvConfig {
            padding,
            padding_mode,
            ..
        } = self.cfg;
        if padding_mode == PadMode::Zeros {
            return Ok((xs, padding));
        }
        let last_axis_first: Vec<i64> = padding
            .iter()
            .rev()
            .flat_map(|&size| [size as i64; 2])
            .collect();
        Ok((ops::pad(&xs, &last_axis_first, padding_mode)?, [0; N]))
    }
}

impl<const N: usize> Module for Conv<N> {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        let (xs, padding) = self.pad(self.probe.input(0, xs)?)?;
        let ConvConfig {
            stride,
            dilation,
            groups,
            ..
        } = &self.cfg;
        let bias = self.bias.as_ref();
        let ys = ops::conv(&xs, &self.weight, bias, stride, &padding, dilation, *groups)?;
        self.probe.output(ys)
    }
}

/// The shape of a kernel from `inner` channels, shared out over the groups, to `outer`.
pub(super) fn kernel_shape<const N: usize>(
    outer: usize,
    inner: usize,
    groups: usize,
    kernel: [usize; N],
) -> Result<Vec<usize>> {
    if groups == 0 || !inner.is_multiple_of(groups) || !outer.is_multiple_of(groups) {
        candle::bail!("{inner} and {outer} channels do not divide into {groups} groups")
    }
    Ok([&[outer, inner / groups], &kernel[..]].concat())
}

macro_rules! constructors {
    ($($rank:literal: $with_bias:ident, $no_bias:ident;)+) => {$(
        pub fn $with_bias(
            in_channels: usize,
            out_channels: usize,
            kernel: [usize; $rank],
            cfg: ConvConfig<$rank>,
            vb: VarBuilder,
        ) -> Result<Conv<$rank>> {
            Conv::new(in_channels, out_channels, kernel, cfg, true, vb)
        }

        pub fn $no_bias(
            in_channels: usize,
            out_channels: usize,
            kernel: [usize; $rank],
            cfg: ConvConfig<$rank>,
            vb: VarBuilder,
        ) -> Result<Conv<$rank>> {
            Conv::new(in_channels, out_channels, kernel, cfg, false, vb)
        }
    )+};
}

constructors! {
    1: conv1d, conv1d_no_bias;
    2: conv2d, conv2d_no_bias;
    3: conv3d, conv3d_no_bias;
}
