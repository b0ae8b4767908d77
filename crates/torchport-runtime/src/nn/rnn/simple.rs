//! `torch.nn.RNN`.

use super::cell::{Cell, Weights};
use super::hidden_state::HiddenStateLayer;
use super::RnnConfig;
use crate::ops;
use candle::{Result, Tensor};
use candle_nn::VarBuilder;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nonlinearity {
    Tanh,
    Relu,
}

impl Cell<1> for Nonlinearity {
    const GATES: usize = 1;

    fn step(
        &self,
        weights: &Weights,
        projected: &Tensor,
        [hidden]: &[Tensor; 1],
    ) -> Result<[Tensor; 1]> {
        let hidden = (projected + weights.project_hidden(hidden)?)?;
        let hidden = match self {
            Self::Tanh => ops::tanh(&hidden),
            Self::Relu => ops::relu(&hidden),
        }?;
        Ok([hidden])
    }
}

pub type Rnn = HiddenStateLayer<Nonlinearity>;

pub fn rnn(
    input_size: usize,
    hidden_size: usize,
    cfg: RnnConfig,
    nonlinearity: Nonlinearity,
    vb: VarBuilder,
) -> Result<Rnn> {
    Rnn::new("an RNN", nonlinearity, input_size, hidden_size, cfg, vb)
}
