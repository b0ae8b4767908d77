//! `torch.nn.Linear`.

use super::Weight;
use crate::check::Probe;
use candle::{Module, Result, Tensor};
use candle_nn::VarBuilder;

#[derive(Debug, Clone)]
pub struct Linear {
    probe: Probe,
    weight: Weight,
    bias: Option<Tensor>,
}

impl Linear {
    /// From weights that are already there, such as those tied to an embedding's.
    pub fn new(weight: impl Into<Weight>, bias: Option<Tensor>, vb: VarBuilder) -> Self {
        let probe = Probe::new(&vb);
        Self {
            probe,
            weight: weight.into(),
            bias,
        }
    }

    pub fn weight(&self) -> &Weight {
        &self.weight
    }

    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }
}

impl Module for Linear {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        let xs = self.probe.input(0, xs)?;
        let ys = self.weight.product(&xs, self.bias.as_ref())?;
        self.probe.output(ys)
    }
}

pub fn linear(in_features: usize, out_features: usize, vb: VarBuilder) -> Result<Linear> {
    let weight = Weight::load((out_features, in_features), "weight", &vb)?;
    let bias = vb.get(out_features, "bias")?;
    Ok(Linear::new(weight, Some(bias), vb))
}

pub fn linear_no_bias(in_features: usize, out_features: usize, vb: VarBuilder) -> Result<Linear> {
    let weight = Weight::load((out_features, in_features), "weight", &vb)?;
    Ok(Linear::new(weight, None, vb))
}
