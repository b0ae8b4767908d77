//! Compares what a port computes with what PyTorch computed, call by call.
//!
//! A [`Checker`] holds a golden trace. While [`Checker::watch`] runs a model, every layer's [`Probe`] shows it
//! the layer's inputs and outputs; with no checker watching, a probe only hands its tensors on.

mod checker;
mod compare;
mod error;
mod files;
mod key;
mod probe;
mod recorder;
mod stats;
mod summary;
mod trace;

pub use checker::{Checker, Mode};
pub use compare::Comparison;
pub use error::CheckError;
pub use files::{read_tensors, write_tensors};
pub use probe::{Outputs, Probe};
pub use summary::Summary;

/// Shows tensors to the checker that is watching, if any.
///
/// - `check!(self.probe => xs, mask);` shadows each `&Tensor` named by what the checker hands on for that input.
/// - `check!(self.probe, value)` ends the call and is a `Result` of its outputs.
/// - `check!(self.probe, "node", value)` shows the value of one operation inside the call.
#[macro_export]
macro_rules! check {
    (@inputs $probe:expr, $index:expr,) => {};
    (@inputs $probe:expr, $index:expr, $input:ident $($rest:ident)*) => {
        let $input = &$probe.input($index, $input)?;
        $crate::check!(@inputs $probe, $index + 1, $($rest)*);
    };
    ($probe:expr => $($input:ident),+ $(,)?) => {
        $crate::check!(@inputs $probe, 0, $($input)+);
    };
    ($probe:expr, $node:literal, $value:expr) => {
        $probe.node($node, $value)
    };
    ($probe:expr, $value:expr) => {
        $probe.output($value)
    };
}
