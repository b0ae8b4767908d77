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

/// Ends a `forward` with an error unless the sizes of its inputs fulfil a condition, such as `ensure!(batch >= 4);`.
#[macro_export]
macro_rules! ensure {
    ($condition:expr) => {
        // The error has the condition as it is written here: a remainder reads like one.
        #[allow(clippy::manual_is_multiple_of)]
        let is_fulfilled = $condition;
        if !is_fulfilled {
            return Err($crate::unfulfilled(stringify!($condition)));
        }
    };
}

/// The error for inputs of other sizes than those that a port stands for its model at.
pub fn unfulfilled(condition: &str) -> candle::Error {
    candle::Error::msg(format!(
        "this port stands for its model where {condition}, which these inputs do not fulfil"
    ))
    .bt()
}

#[cfg(test)]
mod tests {
    #[test]
    fn inputs_that_do_not_fulfil_a_condition_are_told_which() {
        let halved = |batch: usize| {
            ensure!(batch % 2 == 0);
            Ok(batch / 2)
        };
        assert_eq!(halved(4).unwrap(), 2);
        let error = halved(5).unwrap_err().to_string();
        assert!(
            error.contains("stands for its model where batch % 2 == 0"),
            "{error}"
        );
    }
}
