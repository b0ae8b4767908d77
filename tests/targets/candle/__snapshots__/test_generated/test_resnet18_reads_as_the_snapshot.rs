//! ResNet, ported from `torchvision.models.resnet.ResNet`.

use candle::{Module, Result, Tensor};
use candle_nn::VarBuilder;
use torchport_runtime::{
    check,
    nn::{self, Activation, BatchNorm, Conv2d, Linear},
    ops, Probe,
};

/// Sizes that are not here are fixed: what follows from them is not known.
/// `out_features` is fixed: the literals 2, 3, 224 may follow from it.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub out_features: usize,
}

struct MaxPool2d {
    probe: Probe,
}

impl MaxPool2d {
    fn new(vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            probe: Probe::new(&vb),
        })
    }
}

impl Module for MaxPool2d {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        check!(self.probe => xs);
        check!(
            self.probe,
            ops::max_pool(xs, &[3, 3], &[2, 2], &[1, 1], &[1, 1], false)?
        )
    }
}

struct BasicBlock {
    conv1: Conv2d,
    bn1: BatchNorm,
    relu: Activation,
    conv2: Conv2d,
    bn2: BatchNorm,
    probe: Probe,
}

impl BasicBlock {
    fn new(in_channels: usize, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            conv1: nn::conv2d_no_bias(
                in_channels,
                in_channels,
                [3, 3],
                nn::ConvConfig {
                    stride: [1, 1],
                    padding: [1, 1],
                    ..Default::default()
                },
                vb.pp("conv1"),
            )?,
            bn1: nn::batch_norm(in_channels, 1e-5, vb.pp("bn1"))?,
            relu: nn::relu(vb.pp("relu")),
            conv2: nn::conv2d_no_bias(
                in_channels,
                in_channels,
                [3, 3],
                nn::ConvConfig {
                    padding: [1, 1],
                    ..Default::default()
                },
                vb.pp("conv2"),
            )?,
            bn2: nn::batch_norm(in_channels, 1e-5, vb.pp("bn2"))?,
            probe: Probe::new(&vb),
        })
    }
}

impl Module for BasicBlock {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        check!(self.probe => xs);
        let out = self
            .conv1
            .forward(xs)?
            .apply(&self.bn1)?
            .apply(&self.relu)?
            .apply(&self.conv2)?
            .apply(&self.bn2)?;
        check!(self.probe, (&out + xs)?.apply(&self.relu)?)
    }
}

struct Layer {
    layers: Vec<BasicBlock>,
    probe: Probe,
}

impl Layer {
    fn new(vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            layers: (0..2)
                .map(|i| BasicBlock::new(64, vb.pp(i)))
                .collect::<Result<Vec<_>>>()?,
            probe: Probe::new(&vb),
        })
    }
}

impl Module for Layer {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        check!(self.probe => xs);
        let mut input = xs.clone();
        for layer in &self.layers {
            input = layer.forward(&input)?;
        }
        check!(self.probe, input)
    }
}

struct Downsample {
    conv: Conv2d,
    norm: BatchNorm,
    probe: Probe,
}

impl Downsample {
    fn new(in_channels: usize, out_channels: usize, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            conv: nn::conv2d_no_bias(
                in_channels,
                out_channels,
                [1, 1],
                nn::ConvConfig {
                    stride: [2, 2],
                    ..Default::default()
                },
                vb.pp("0"),
            )?,
            norm: nn::batch_norm(out_channels, 1e-5, vb.pp("1"))?,
            probe: Probe::new(&vb),
        })
    }
}

impl Module for Downsample {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        check!(self.probe => xs);
        check!(self.probe, self.conv.forward(xs)?.apply(&self.norm)?)
    }
}

struct BasicBlockWithDownsample {
    conv1: Conv2d,
    bn1: BatchNorm,
    relu: Activation,
    conv2: Conv2d,
    bn2: BatchNorm,
    downsample: Downsample,
    probe: Probe,
}

impl BasicBlockWithDownsample {
    fn new(in_channels: usize, out_channels: usize, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            conv1: nn::conv2d_no_bias(
                in_channels,
                out_channels,
                [3, 3],
                nn::ConvConfig {
                    stride: [2, 2],
                    padding: [1, 1],
                    ..Default::default()
                },
                vb.pp("conv1"),
            )?,
            bn1: nn::batch_norm(out_channels, 1e-5, vb.pp("bn1"))?,
            relu: nn::relu(vb.pp("relu")),
            conv2: nn::conv2d_no_bias(
                out_channels,
                out_channels,
                [3, 3],
                nn::ConvConfig {
                    padding: [1, 1],
                    ..Default::default()
                },
                vb.pp("conv2"),
            )?,
            bn2: nn::batch_norm(out_channels, 1e-5, vb.pp("bn2"))?,
            downsample: Downsample::new(in_channels, out_channels, vb.pp("downsample"))?,
            probe: Probe::new(&vb),
        })
    }
}

impl Module for BasicBlockWithDownsample {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        check!(self.probe => xs);
        let out = self
            .conv1
            .forward(xs)?
            .apply(&self.bn1)?
            .apply(&self.relu)?
            .apply(&self.conv2)?
            .apply(&self.bn2)?;
        check!(
            self.probe,
            (&out + self.downsample.forward(xs)?)?.apply(&self.relu)?
        )
    }
}

struct Layer2 {
    basic_block: BasicBlockWithDownsample,
    basic_block_2: BasicBlock,
    probe: Probe,
}

impl Layer2 {
    fn new(in_channels: usize, out_channels: usize, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            basic_block: BasicBlockWithDownsample::new(in_channels, out_channels, vb.pp("0"))?,
            basic_block_2: BasicBlock::new(out_channels, vb.pp("1"))?,
            probe: Probe::new(&vb),
        })
    }
}

impl Module for Layer2 {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        check!(self.probe => xs);
        check!(
            self.probe,
            self.basic_block.forward(xs)?.apply(&self.basic_block_2)?
        )
    }
}

struct AdaptiveAvgPool2d {
    probe: Probe,
}

impl AdaptiveAvgPool2d {
    fn new(vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            probe: Probe::new(&vb),
        })
    }
}

impl Module for AdaptiveAvgPool2d {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        check!(self.probe => xs);
        check!(self.probe, ops::adaptive_avg_pool(xs, &[1, 1])?)
    }
}

pub struct ResNet {
    conv1: Conv2d,
    bn1: BatchNorm,
    relu: Activation,
    maxpool: MaxPool2d,
    layer1: Layer,
    layer2: Layer2,
    layer3: Layer2,
    layer4: Layer2,
    avgpool: AdaptiveAvgPool2d,
    fc: Linear,
    probe: Probe,
}

impl ResNet {
    pub fn new(cfg: &Config, vb: VarBuilder) -> Result<Self> {
        if cfg.out_features != 1000 {
            candle::bail!("`out_features` is 1000 in this port: nothing says what becomes of the literals 2, 3, 224 with another");
        }
        Ok(Self {
            conv1: nn::conv2d_no_bias(
                3,
                64,
                [7, 7],
                nn::ConvConfig {
                    stride: [2, 2],
                    padding: [3, 3],
                    ..Default::default()
                },
                vb.pp("conv1"),
            )?,
            bn1: nn::batch_norm(64, 1e-5, vb.pp("bn1"))?,
            relu: nn::relu(vb.pp("relu")),
            maxpool: MaxPool2d::new(vb.pp("maxpool"))?,
            layer1: Layer::new(vb.pp("layer1"))?,
            layer2: Layer2::new(64, 128, vb.pp("layer2"))?,
            layer3: Layer2::new(128, 256, vb.pp("layer3"))?,
            layer4: Layer2::new(256, 512, vb.pp("layer4"))?,
            avgpool: AdaptiveAvgPool2d::new(vb.pp("avgpool"))?,
            fc: nn::linear(512, cfg.out_features, vb.pp("fc"))?,
            probe: Probe::new(&vb),
        })
    }
}

impl Module for ResNet {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        check!(self.probe => x);
        ops::expect_length(x, 2, 224)?;
        ops::expect_length(x, 3, 224)?;
        let ys = self
            .conv1
            .forward(x)?
            .apply(&self.bn1)?
            .apply(&self.relu)?
            .apply(&self.maxpool)?
            .apply(&self.layer1)?
            .apply(&self.layer2)?
            .apply(&self.layer3)?
            .apply(&self.layer4)?;
        check!(
            self.probe,
            ys.apply(&self.avgpool)?.flatten_from(1)?.apply(&self.fc)?
        )
    }
}
