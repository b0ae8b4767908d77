//! `torch.nn.Embedding`.

use crate::check::Probe;
use crate::ops;
use candle::{Module, Result, Tensor};
use candle_nn::VarBuilder;

#[derive(Debug, Clone)]
pub struct Embedding {
    probe: Probe,
    weight: Tensor,
}

impl Embedding {
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }
}

impl Module for Embedding {
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let ids = self.probe.input(0, ids)?;
        self.probe.output(ops::embedding(&self.weight, &ids)?)
    }
}

pub fn embedding(num_embeddings: usize, dim: usize, vb: VarBuilder) -> Result<Embedding> {
    let probe = Probe::new(&vb);
    let weight = vb.get((num_embeddings, dim), "weight")?;
    Ok(Embedding { probe, weight })
}
