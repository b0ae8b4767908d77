//! `torch.nn.Conv1d`, `Conv2d` and `Conv3d`: one type for any number of spatial axes.

use super::convolution::{constructors, Convolution, Grouped};
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

impl<const N: usize> Grouped for ConvConfig<N> {
    const TRANSPOSED: bool = false;

    fn groups(&self) -> usize {
        self.groups
    }
}

pub type Conv<const N: usize> = Convolution<ConvConfig<N>>;
pub type Conv1d = Conv<1>;
pub type Conv2d = Conv<2>;
pub type Conv3d = Conv<3>;

impl<const N: usize> Conv<N> {
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

constructors! {
    ConvConfig:
    conv1d(rank: 1, bias: true);
    conv1d_no_bias(rank: 1, bias: false);
    conv2d(rank: 2, bias: true);
    conv2d_no_bias(rank: 2, bias: false);
    conv3d(rank: 3, bias: true);
    conv3d_no_bias(rank: 3, bias: false);
}
