//! `torch.nn.ConvTranspose1d`, `ConvTranspose2d` and `ConvTranspose3d`.

use super::convolution::{constructors, Convolution, Grouped};
use crate::ops;
use candle::{Module, Result, Tensor};
use candle_nn::VarBuilder;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvTransposeConfig<const N: usize> {
    pub stride: [usize; N],
    pub padding: [usize; N],
    pub output_padding: [usize; N],
    pub dilation: [usize; N],
    pub groups: usize,
}

impl<const N: usize> Default for ConvTransposeConfig<N> {
    fn default() -> Self {
        Self {
            stride: [1; N],
            padding: [0; N],
            output_padding: [0; N],
            dilation: [1; N],
            groups: 1,
        }
    }
}

impl<const N: usize> Grouped for ConvTransposeConfig<N> {
    const TRANSPOSED: bool = true;

    fn groups(&self) -> usize {
        self.groups
    }
}

pub type ConvTranspose<const N: usize> = Convolution<ConvTransposeConfig<N>>;
pub type ConvTranspose1d = ConvTranspose<1>;
pub type ConvTranspose2d = ConvTranspose<2>;
pub type ConvTranspose3d = ConvTranspose<3>;

impl<const N: usize> Module for ConvTranspose<N> {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        let xs = self.probe.input(0, xs)?;
        let cfg = &self.cfg;
        let ys = ops::conv_transpose(
            &xs,
            &self.weight,
            self.bias.as_ref(),
            &cfg.stride,
            &cfg.padding,
            &cfg.output_padding,
            cfg.groups,
            &cfg.dilation,
        )?;
        self.probe.output(ys)
    }
}

constructors! {
    ConvTransposeConfig:
    conv_transpose1d(rank: 1, bias: true);
    conv_transpose1d_no_bias(rank: 1, bias: false);
    conv_transpose2d(rank: 2, bias: true);
    conv_transpose2d_no_bias(rank: 2, bias: false);
    conv_transpose3d(rank: 3, bias: true);
    conv_transpose3d_no_bias(rank: 3, bias: false);
}
