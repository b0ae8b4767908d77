//! A recurrent layer whose only state is the hidden one, as in `torch.nn.GRU` and `torch.nn.RNN`.

use super::cell::Cell;
use super::stack::Stack;
use super::RnnConfig;
use crate::check::Probe;
use candle::{Result, Tensor};
use candle_nn::VarBuilder;

#[derive(Debug, Clone)]
pub struct HiddenStateLayer<C> {
    probe: Probe,
    stack: Stack<C, 1>,
}

impl<C: Cell<1>> HiddenStateLayer<C> {
    /// `name` is the layer's name with its article, for the error if `cfg` asks for a projection.
    pub(super) fn new(
        name: &str,
        cell: C,
        input_size: usize,
        hidden_size: usize,
        cfg: RnnConfig,
        vb: VarBuilder,
    ) -> Result<Self> {
        if cfg.proj_size != 0 {
            candle::bail!("only an LSTM has a proj_size, not {name}")
        }
        Ok(Self {
            stack: Stack::new(cell, input_size, hidden_size, [hidden_size], &cfg, &vb)?,
            probe: Probe::new(&vb),
        })
    }

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
