//! What a convolution and its transpose share: the weights under torch's names, and the constructors by rank.

use crate::check::Probe;
use candle::{Result, Tensor};
use candle_nn::VarBuilder;

/// A configuration of one kind of convolution.
pub(super) trait Grouped {
    /// Whether torch keeps the weight with the input channels first.
    const TRANSPOSED: bool;

    fn groups(&self) -> usize;
}

/// A convolution layer of the kind that `Config` configures.
#[derive(Debug, Clone)]
pub struct Convolution<Config> {
    pub(super) probe: Probe,
    pub(super) weight: Tensor,
    pub(super) bias: Option<Tensor>,
    pub(super) cfg: Config,
}

impl<Config> Convolution<Config> {
    pub(super) fn new<const N: usize>(
        in_channels: usize,
        out_channels: usize,
        kernel: [usize; N],
        cfg: Config,
        bias: bool,
        vb: VarBuilder,
    ) -> Result<Self>
    where
        Config: Grouped,
    {
        let (outer, inner) = match Config::TRANSPOSED {
            true => (in_channels, out_channels),
            false => (out_channels, in_channels),
        };
        let shape = kernel_shape(outer, inner, cfg.groups(), kernel)?;
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

/// The shape of a kernel from `inner` channels, shared out over the groups, to `outer`.
fn kernel_shape<const N: usize>(
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
    ($config:ident: $($name:ident(rank: $rank:literal, bias: $bias:literal);)+) => {$(
        pub fn $name(
            in_channels: usize,
            out_channels: usize,
            kernel: [usize; $rank],
            cfg: $config<$rank>,
            vb: VarBuilder,
        ) -> Result<Convolution<$config<$rank>>> {
            Convolution::new(in_channels, out_channels, kernel, cfg, $bias, vb)
        }
    )+};
}
pub(super) use constructors;
