//! What a model ported by torchport needs beside candle: operations with torch's semantics,
//! layers that know their own path, and a checker that compares every layer with what PyTorch computed.

pub mod check;
pub mod nn;
pub mod ops;

pub use check::{Checker, Mode, Probe};
