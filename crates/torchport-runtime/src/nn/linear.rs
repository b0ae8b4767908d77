//! `torch.nn.Linear`.

use crate::check::Probe;
use crate::ops;
use candle::{Module, Result, Tensor};
use candle_nn::VarBuilder;

#[derive(Debug, Clone)]
pub struct Linear {
    probe: Probe,
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// From weights that are already there, such as those tied to an embedding's.
    pub fn new(weight: Tensor, bias: Option<Tensor>, vb: VarBuilder) -> Self {
        let probe = Probe::new(&vb);
        Self {
            probe,
            weight,
            bias,
        }
    }

    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }
}

impl Module for Linear {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        let xs = self.probe.input(0, xs)?;
        let ys = ops::linear(&xs, &self.weight, self.bias.as_ref())?;
        self.probe.output(ys)
    }
}

pub fn linear(in_features: usize, out_features: usize, vb: VarBuilder) -> Result<Linear> {
    let weight = vb.get((out_features, in_features), "weight")?;
    let bias = vb.get(out_features, "bias")?;
    Ok(Linear::new(weight, Some(bias), vb))
}

pub fn linear_no_bias(in_features: usize, out_features: usize, vb: VarBuilder) -> Result<Linear> {
    let weight = vb.get((out_features, in_features), "weight")?;
    Ok(Linear::new(weight, None, vb))
}
