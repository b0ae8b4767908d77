//! Recurrent operations on weights that are given as tensors, in any floating point dtype.

use super::cell::{working_dtype, Cell, Weights};
use super::gru::GruCell;
use super::lstm::LstmCell;
use super::simple::Nonlinearity;
use super::stack::Stack;
use super::RnnConfig;
use candle::{bail, Result, Tensor};

/// `torch.lstm(x, (hidden, cell), params, …)`: output, last hidden and last cell states. `params` are those
/// of `nn.LSTM` in torch's order.
pub fn lstm_of(
    x: &Tensor,
    hidden: &Tensor,
    cell: &Tensor,
    params: &[&Tensor],
    cfg: RnnConfig,
) -> Result<(Tensor, Tensor, Tensor)> {
    let sizes = [last(hidden)?, last(cell)?];
    let stack = stack(LstmCell, sizes, params, &cfg)?;
    let (ys, [hidden, cell]) = stack.forward(x, Some([hidden, cell]))?;
    Ok((ys, hidden, cell))
}

/// `torch.gru(x, hidden, params, …)`: output and last hidden state.
pub fn gru_of(
    x: &Tensor,
    hidden: &Tensor,
    params: &[&Tensor],
    cfg: RnnConfig,
) -> Result<(Tensor, Tensor)> {
    one_state(GruCell, x, hidden, params, cfg)
}

/// `torch.rnn_tanh(x, hidden, params, …)` or `rnn_relu`: output and last hidden state.
pub fn rnn_of(
    x: &Tensor,
    hidden: &Tensor,
    params: &[&Tensor],
    cfg: RnnConfig,
    nonlinearity: Nonlinearity,
) -> Result<(Tensor, Tensor)> {
    one_state(nonlinearity, x, hidden, params, cfg)
}

/// `lstm_of` for a batch of rows of different lengths: (steps, batch, input), the longest row first.
pub fn lstm_packed(
    x: &Tensor,
    lengths: &Tensor,
    hidden: &Tensor,
    cell: &Tensor,
    params: &[&Tensor],
    cfg: RnnConfig,
) -> Result<(Tensor, Tensor, Tensor)> {
    let sizes = [last(hidden)?, last(cell)?];
    let stack = stack(LstmCell, sizes, params, &cfg)?;
    let (ys, [hidden, cell]) = stack.forward_packed(x, lengths, [hidden, cell])?;
    Ok((ys, hidden, cell))
}

/// `gru_of` for a batch of rows of different lengths.
pub fn gru_packed(
    x: &Tensor,
    lengths: &Tensor,
    hidden: &Tensor,
    params: &[&Tensor],
    cfg: RnnConfig,
) -> Result<(Tensor, Tensor)> {
    let stack = stack(GruCell, [last(hidden)?], params, &cfg)?;
    let (ys, [hidden]) = stack.forward_packed(x, lengths, [hidden])?;
    Ok((ys, hidden))
}

/// `rnn_of` for a batch of rows of different lengths.
pub fn rnn_packed(
    x: &Tensor,
    lengths: &Tensor,
    hidden: &Tensor,
    params: &[&Tensor],
    cfg: RnnConfig,
    nonlinearity: Nonlinearity,
) -> Result<(Tensor, Tensor)> {
    let stack = stack(nonlinearity, [last(hidden)?], params, &cfg)?;
    let (ys, [hidden]) = stack.forward_packed(x, lengths, [hidden])?;
    Ok((ys, hidden))
}

fn one_state<C: Cell<1>>(
    cell: C,
    x: &Tensor,
    hidden: &Tensor,
    params: &[&Tensor],
    cfg: RnnConfig,
) -> Result<(Tensor, Tensor)> {
    let stack = stack(cell, [last(hidden)?], params, &cfg)?;
    let (ys, [hidden]) = stack.forward(x, Some([hidden]))?;
    Ok((ys, hidden))
}

fn last(state: &Tensor) -> Result<usize> {
    state.dim(candle::D::Minus1)
}

fn stack<C: Cell<STATES>, const STATES: usize>(
    cell: C,
    state_sizes: [usize; STATES],
    params: &[&Tensor],
    cfg: &RnnConfig,
) -> Result<Stack<C, STATES>> {
    let of_each = 2 + 2 * cfg.bias as usize + (cfg.proj_size > 0) as usize;
    let directions = 1 + cfg.bidirectional as usize;
    if params.len() != of_each * directions * cfg.num_layers {
        bail!("a recurrent operation with {} weights", params.len())
    }
    let dtype = params[0].dtype();
    let wide = |tensor: &Tensor| tensor.to_dtype(working_dtype(dtype));
    let weights = params.chunks(of_each).map(|params| {
        let params = params
            .iter()
            .map(|tensor| wide(tensor))
            .collect::<Result<Vec<_>>>()?;
        Weights::of(params, cfg)
    });
    let weights = weights.collect::<Result<Vec<_>>>()?;
    let layers = weights
        .chunks(directions)
        .map(<[Weights]>::to_vec)
        .collect();
    Ok(Stack::of(cell, layers, state_sizes, cfg.batch_first, dtype))
}
