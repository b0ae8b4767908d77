//! What a model ported by torchport needs beside candle: operations with torch's semantics,
//! layers that know their own path, and a checker that follows a run along what PyTorch computed.

pub mod check;
pub mod fourier;
pub mod gguf;
pub mod inputs;
pub mod nn;
pub mod ops;
pub mod run;
mod streamed;

pub use check::{Checker, Mode, Probe};

/// Stands for an operation that nothing maps yet: compiles, and says what is missing when it is reached.
pub fn todo(message: &str) -> candle::Result<candle::Tensor> {
    Err(check::Todo::parse(message).into_candle())
}
