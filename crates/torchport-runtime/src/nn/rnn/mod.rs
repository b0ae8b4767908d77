//! `torch.nn.LSTM`, `GRU` and `RNN`: stacked, in both directions, with or without a batch.

mod cell;
mod functional;
mod gru;
mod hidden_state;
mod lstm;
mod simple;
mod stack;

pub use functional::{gru_of, gru_packed, lstm_of, lstm_packed, rnn_of, rnn_packed};
pub use gru::{gru, Gru};
pub use lstm::{lstm, Lstm};
pub use simple::{rnn, Nonlinearity, Rnn};

/// The arguments of torch's recurrent modules under torch's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RnnConfig {
    pub num_layers: usize,
    pub bidirectional: bool,
    pub batch_first: bool,
    pub bias: bool,
    /// Size of the projected hidden state of an LSTM; 0 for none.
    pub proj_size: usize,
}

impl Default for RnnConfig {
    fn default() -> Self {
        Self {
            num_layers: 1,
            bidirectional: false,
            batch_first: false,
            bias: true,
            proj_size: 0,
        }
    }
}
