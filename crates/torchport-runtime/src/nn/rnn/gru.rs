//! `torch.nn.GRU`.

use super::cell::{Cell, Weights};
use super::hidden_state::HiddenStateLayer;
use super::RnnConfig;
use crate::ops;
use candle::{Result, Tensor, D};
use candle_nn::VarBuilder;

#[derive(Debug, Clone)]
pub struct GruCell;

impl Cell<1> for GruCell {
    const GATES: usize = 3;

    fn step(
        &self,
        weights: &Weights,
        projected: &Tensor,
        [hidden]: &[Tensor; 1],
    ) -> Result<[Tensor; 1]> {
        let from_input = projected.chunk(Self::GATES, D::Minus1)?;
        let from_hidden = weights
            .project_hidden(hidden)?
            .chunk(Self::GATES, D::Minus1)?;
        let reset = ops::sigmoid(&(&from_input[0] + &from_hidden[0])?)?;
        let update = ops::sigmoid(&(&from_input[1] + &from_hidden[1])?)?;
        let candidate = ops::tanh(&(&from_input[2] + (reset * &from_hidden[2])?)?)?;
        let hidden = ((update * (hidden - &candidate)?)? + candidate)?;
        Ok([hidden])
    }
}

pub type Gru = HiddenStateLayer<GruCell>;

pub fn gru(input_size: usize, hidden_size: usize, cfg: RnnConfig, vb: VarBuilder) -> Result<Gru> {
    Gru::new("a GRU", GruCell, input_size, hidden_size, cfg, vb)
}
