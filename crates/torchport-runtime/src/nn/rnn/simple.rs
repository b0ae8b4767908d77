//! `torch.nn.RNN`.

use super::cell::{Cell, Weights};
use super::stack::Stack;
use super::RnnConfig;
use crate::check::Probe;
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

#[derive(Debug, Clone)]
pub struct Rnn {
    probe: Probe,
    stack: Stack<Nonlinearity, 1>,
}

impl Rnn {
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

pub fn rnn(
    input_size: usize,
    hidden_size: usize,
    cfg: RnnConfig,
    nonlinearity: Nonlinearity,
    vb: VarBuilder,
) -> Result<Rnn> {
    if cfg.proj_size != 0 {
        candle::bail!("only an LSTM has a proj_size, not an RNN")
    }
    let sizes = [hidden_size];
    Ok(Rnn {
        stack: Stack::new(nonlinearity, input_size, hidden_size, sizes, &cfg, &vb)?,
        probe: Probe::new(&vb),
    })
}
