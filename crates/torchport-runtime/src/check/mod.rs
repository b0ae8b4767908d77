//! Follows a port along a golden trace: what PyTorch computed, call by call.
//!
//! While [`Checker::watch`] runs a model, every layer's [`Probe`] shows the checker the layer's inputs and outputs,
//! and the checker records them. With no checker watching, a probe only hands its tensors on. A recording is judged
//! elsewhere; to judge a single tensor on the spot, there is [`Checker::verify`]:
//!
//! ```no_run
//! # use candle::{Device, Result, Tensor};
//! # fn example(hidden: &Tensor) -> Result<()> {
//! use torchport_runtime::Checker;
//!
//! let checker = Checker::load("bert", "torchport-out/bert/capture", &Device::Cpu)?;
//! let found = checker.verify("encoder.layer.0", hidden)?;
//! println!("mse {}, max abs {}, cosine {}", found.mse, found.max_abs, found.cosine);
//! assert!(found.passed, "{found:?}");
//! # Ok(())
//! # }
//! ```

mod checker;
mod compare;
mod error;
mod files;
mod key;
mod probe;
mod recorder;
mod stats;
mod stop;
mod trace;

pub use checker::{Checker, Mode};
pub use compare::Comparison;
pub use error::CheckError;
pub use files::{read_tensors, write_tensors};
pub use probe::{Outputs, Probe};
pub(crate) use stop::{panic_message, said, Stopped, Todo};

/// Shows tensors to the checker that is watching, if any.
///
/// - `check!(self.probe => xs, mask);` shadows each `Tensor` or `&Tensor` named by what the checker hands on for that input.
/// - `check!(self.probe, value)` ends the call and is a `Result` of its outputs.
/// - `check!(self.probe, "node", value)` shows the value of one operation inside the call.
#[macro_export]
macro_rules! check {
    (@inputs $probe:expr, $index:expr,) => {};
    (@inputs $probe:expr, $index:expr, $input:ident $($rest:ident)*) => {
        let $input = &$probe.input($index, &$input)?;
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
