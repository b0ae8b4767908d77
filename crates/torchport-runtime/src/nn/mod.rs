//! Layers under the names of `candle_nn`, with torch's arithmetic and torch's weight names. Each knows its own
//! path and shows its inputs and outputs to the checker that is watching.

mod activation;
mod conv;
mod conv_transpose;
mod convolution;
mod embedding;
mod linear;
mod norm;
mod rnn;
mod weight;

pub use activation::*;
pub use conv::*;
pub use conv_transpose::*;
pub use embedding::{embedding, Embedding};
pub use linear::{linear, linear_no_bias, Linear};
pub use norm::*;
pub use rnn::*;
pub(crate) use weight::as_stored;
pub use weight::Weight;
