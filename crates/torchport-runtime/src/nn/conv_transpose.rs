//! `torch.nn.ConvTranspose1d`, `ConvTranspose2d` and `ConvTranspose3d`.

use super::conv::kernel_shape;
use crate::check::Probe;
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

#[derive(Debug, Clone)]
pub struct ConvTranspose<const N: usize> {
    probe: Probe,
    weight: Tensor,
    bias: Option<Tensor>,
    cfg: ConvTransposeConfig<N>,
}

pub type ConvTranspose1d = ConvTranspose<1>;
pub type ConvTranspose2d = ConvTranspose<2>;
pub type ConvTranspose3d = ConvTranspose<3>;

impl<const N: usize> ConvTranspose<N> {
    fn new(
        in_channels: usize,
        out_channels: usize,
        kernel: [usize; N],
        cfg: ConvTransposeConfig<N>,
        bias: bool,
        vb: VarBuilder,
    ) -> Result<Self> {
        let shape = kernel_shape(in_channels, out_channels, cfg.groups, kernel)?;
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
}

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

macro_rules! constructors {
    ($($rank:literal: $with_bias:ident, $no_bias:ident;)+) => {$(
        pub fn $with_bias(
            in_channels: usize,
            out_channels: usize,
            kernel: [usize; $rank],
            cfg: ConvTransposeConfig<$rank>,
            vb: VarBuilder,
        ) -> Result<ConvTranspose<$rank>> {
            ConvTranspose::new(in_channels, out_channels, kernel, cfg, true, vb)
        }

        pub fn $no_bias(
            in_channels: usize,
            out_channels: usize,
            kernel: [usize; $rank],
            cfg: ConvTransposeConfig<$rank>,
            vb: VarBuilder,
        ) -> Result<ConvTranspose<$rank>> {
            ConvTranspose::new(in_channels, out_channels, kernel, cfg, false, vb)
        }
    )+};
}

constructors! {
    1: conv_transpose1d, conv_transpose1d_no_bias;
    2: conv_transpose2d, conv_transpose2d_no_bias;
    3: conv_transpose3d, conv_transpose3d_no_bias;
}
