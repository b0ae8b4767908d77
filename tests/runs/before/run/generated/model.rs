//! Net, ported from `net.Net`.

use candle::{Module, Result, Tensor};
use candle_nn::VarBuilder;
use torchport_runtime::{
    check,
    nn::{self, LayerNorm, Linear},
    ops, Probe,
};

#[derive(Debug, Clone, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Config {
    pub out_features: usize,
    pub hidden_size: usize,
}

struct Block {
    norm: LayerNorm,
    dense: Linear,
    probe: Probe,
}

impl Block {
    fn new(cfg: &Config, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            norm: nn::layer_norm(cfg.hidden_size, 1e-5, vb.pp("norm"))?,
            dense: nn::linear(cfg.hidden_size, cfg.hidden_size, vb.pp("dense"))?,
            probe: Probe::new(&vb),
        })
    }
}

impl Module for Block {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        check!(self.probe => xs);
        check!(
            self.probe,
            (xs + ops::gelu(&self.norm.forward(xs)?.apply(&self.dense)?)?)?
        )
    }
}

pub struct Net {
    blocks: Vec<Block>,
    head: Linear,
    probe: Probe,
}

impl Net {
    pub fn new(cfg: &Config, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            blocks: (0..2)
                .map(|i| Block::new(cfg, vb.pp(format!("blocks.{i}"))))
                .collect::<Result<Vec<_>>>()?,
            head: nn::linear(cfg.hidden_size, cfg.out_features, vb.pp("head"))?,
            probe: Probe::new(&vb),
        })
    }
}

impl Module for Net {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        check!(self.probe => xs);
        let mut x = xs.clone();
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        check!(self.probe, self.head.forward(&x)?)
    }
}
