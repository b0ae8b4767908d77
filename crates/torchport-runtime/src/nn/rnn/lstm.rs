//! `torch.nn.LSTM`.

use super::cell::{Cell, Weights};
use super::stack::Stack;
use super::RnnConfig;
use crate::check::Probe;
use crate::ops;
use candle::{Result, Tensor, D};
use candle_nn::VarBuilder;

#[derive(Debug, Clone)]
pub(super) struct LstmCell;

impl Cell<2> for LstmCell {
    const GATES: usize = 4;

    fn step(
        &self,
        weights: &Weights,
        projected: &Tensor,
        [hidden, cell]: &[Tensor; 2],
    ) -> Result<[Tensor; 2]> {
        let gates = (projected + weights.project_hidden(hidden)?)?.chunk(Self::GATES, D::Minus1)?;
        let input = ops::sigmoid(&gates[0])?;
        let forget = ops::sigmoid(&gates[1])?;
        let candidate = ops::tanh(&gates[2])?;
        let output = ops::sigmoid(&gates[3])?;
        let cell = ((forget * cell)? + (input * candidate)?)?;
        let hidden = (output * ops::tanh(&cell)?)?;
        Ok([weights.project_output(hidden)?, cell])
    }
}

#[derive(Debug, Clone)]
pub struct Lstm {
    probe: Probe,
    stack: Stack<LstmCell, 2>,
}

impl Lstm {
    /// `(output, h_n, c_n)`, from states of zeros.
    pub fn forward(&self, xs: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
        let xs = self.probe.input(0, xs)?;
        let (ys, [hidden, cell]) = self.stack.forward(&xs, None)?;
        self.probe.output((ys, hidden, cell))
    }

    pub fn forward_with_state(
        &self,
        xs: &Tensor,
        h0: &Tensor,
        c0: &Tensor,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let xs = self.probe.input(0, xs)?;
        let h0 = self.probe.input(1, h0)?;
        let c0 = self.probe.input(2, c0)?;
        let (ys, [hidden, cell]) = self.stack.forward(&xs, Some([&h0, &c0]))?;
        self.probe.output((ys, hidden, cell))
    }
}

pub fn lstm(input_size: usize, hidden_size: usize, cfg: RnnConfig, vb: VarBuilder) -> Result<Lstm> {
    let state_size = match cfg.proj_size {
        0 => hidden_size,
        size => size,
    };
    let sizes = [state_size, hidden_size];
    Ok(Lstm {
        stack: Stack::new(LstmCell, input_size, hidden_size, sizes, &cfg, &vb)?,
        probe: Probe::new(&vb),
    })
}
