//! `torch.nn.Embedding`.

use super::Weight;
use crate::check::Probe;
use candle::{Module, Result, Tensor};
use candle_nn::VarBuilder;

#[derive(Debug, Clone)]
pub struct Embedding {
    probe: Probe,
    weight: Weight,
}

impl Embedding {
    pub fn weight(&self) -> &Weight {
        &self.weight
    }
}

impl Module for Embedding {
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let ids = self.probe.input(0, ids)?;
        self.probe.output(self.weight.rows(&ids)?)
    }
}

pub fn embedding(num_embeddings: usize, dim: usize, vb: VarBuilder) -> Result<Embedding> {
    let probe = Probe::new(&vb);
    let weight = Weight::load((num_embeddings, dim), "weight", &vb)?;
    Ok(Embedding { probe, weight })
}
