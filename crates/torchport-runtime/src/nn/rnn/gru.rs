//! `torch.nn.GRU`.

use super::cell::{Cell, Weights};
use super::stack::Stack;
use super::RnnConfig;
use crate::check::Probe;
use crate::ops;
use candle::{Result, Tensor, D};
use candle_nn::VarBuilder;

#[derive(Debug, Clone)]
struct GruCell;

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

#[derive(Debug, Clone)]
pub struct Gru {
    probe: Probe,
    stack: Stack<GruCell, 1>,
}

impl Gru {
    /// `(output, h_n)`, from a state of zeros.
    pub fn forward(&self, xs: &Tensor) -> Result<(Tensor, Tensor)> {
        let xs = self.probe.input(0, xs)?;
        let (ys, [hidden]) = self.stack.forward(&xs, None)?;
        self.probe.output((ys, hidden))
    }

    pub fn forward_with_state(&self, xs: &Tensor, h0: &Tensor) -> Result<(Tensor, Tensor)> {
        let xs = self.probe.input(0, xs)?;
        let h0 = self.probe.input(1, h0)?;
        let (ys, [hidden]) = self.stack.forward(&xs, Some([&h0]))?;
        self.probe.output((ys, hidden))
    }
}

pub fn gru(input_size: usize, hidden_size: usize, cfg: RnnConfig, vb: VarBuilder) -> Result<Gru> {
    if cfg.proj_size != 0 {
        candle::bail!("only an LSTM has a proj_size, not a GRU")
    }
    Ok(Gru {
        stack: Stack::new(GruCell, input_size, hidden_size, [hidden_size], &cfg, &vb)?,
        probe: Probe::new(&vb),
    })
}
