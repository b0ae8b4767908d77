//! Block, ported from `net.Block`.

use candle::{Result, Tensor};
use candle_nn::VarBuilder;
use torchport_runtime::{check, ops, Probe};

#[derive(Debug, Clone, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Config {}

pub struct Block {
    probe: Probe,
}

impl Block {
    pub fn new(_cfg: &Config, vb: VarBuilder) -> Result<Self> {
        Ok(Self {
            probe: Probe::new(&vb),
        })
    }

    pub fn forward(&self, input_0: &Tensor, dense: &Tensor) -> Result<Tensor> {
        check!(self.probe => input_0, dense);
        check!(
            self.probe,
            check!(
                self.probe,
                "add",
                (input_0 + check!(self.probe, "gelu", ops:: gelu_tanh (dense)?)?)?
            )?
        )
    }
}
