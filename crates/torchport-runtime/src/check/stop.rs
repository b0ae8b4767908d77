//! Why a watched run ended early, as data in a file beside its record.

use super::error::CheckError;
use super::files;
use serde::Serialize;
use std::any::Any;
use std::path::{Path, PathBuf};

const SCHEMA: u32 = 1;

/// An operation that nothing maps yet, as an error of the place in the model that needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("TODO(torchport): {message}")]
pub(crate) struct Todo {
    op: String,
    message: String,
}

impl Todo {
    /// Generated code writes `OP in CLASS at SOURCE: REASON`, so the operation is the first word.
    pub(crate) fn parse(message: &str) -> Self {
        let op = message.split_whitespace().next().unwrap_or_default();
        Self {
            op: op.to_string(),
            message: message.to_string(),
        }
    }

    /// Candle's own `Error::wrap` forgets the type of an error; an `io::Error` keeps it.
    pub(crate) fn into_candle(self) -> candle::Error {
        candle::Error::Io(std::io::Error::other(self)).bt()
    }

    fn of(error: &candle::Error) -> Option<&Self> {
        use candle::Error::{Context, Io, WithBacktrace, WithPath};
        match error {
            Io(error) => error.get_ref()?.downcast_ref(),
            Context { inner, .. } | WithPath { inner, .. } | WithBacktrace { inner, .. } => {
                Self::of(inner)
            }
            _ => None,
        }
    }
}

/// The end of a run that did not come to its last layer.
#[derive(Debug, Serialize)]
pub(crate) struct Stopped {
    schema: u32,
    message: String,
    todo: Option<Todo>,
}

impl Stopped {
    pub(crate) fn by_error(error: &candle::Error) -> Self {
        Self {
            schema: SCHEMA,
            message: said(error),
            todo: Todo::of(error).cloned(),
        }
    }

    pub(crate) fn by_panic(payload: &(dyn Any + Send)) -> Self {
        Self {
            schema: SCHEMA,
            message: panic_message(payload),
            todo: None,
        }
    }

    /// Writes the file that belongs to the recording `record`, whole or not at all.
    pub(crate) fn write(&self, record: &Path) -> Result<(), CheckError> {
        let path = path_beside(record);
        let beside = files::beside(&path, "tmp");
        let written = std::fs::write(&beside, serde_json::to_vec(self)?)
            .and_then(|()| std::fs::rename(&beside, &path));
        if written.is_err() {
            // Nothing to be done if it was never made.
            let _ = std::fs::remove_file(&beside);
        }
        written.map_err(CheckError::io(&path))
    }

    /// Removes what an earlier run of the same recording left.
    pub(crate) fn forget(record: &Path) -> Result<(), CheckError> {
        let path = path_beside(record);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(CheckError::io(&path)(error))
            }
            _ => Ok(()),
        }
    }
}

fn path_beside(record: &Path) -> PathBuf {
    let mut name = record.as_os_str().to_owned();
    name.push(".stopped.json");
    name.into()
}

/// What a panic said.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    format!("panicked: {}", text.unwrap_or("with no message"))
}

/// The text of an error; with `RUST_BACKTRACE` set, candle's own text has the frames in it.
pub(crate) fn said(error: &candle::Error) -> String {
    use candle::Error::{Context, WithBacktrace, WithPath};
    match error {
        WithBacktrace { inner, .. } => said(inner),
        Context { inner, context } => format!("{context}\n{}", said(inner)),
        WithPath { inner, path } => format!("path: {path:?} {}", said(inner)),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn todo() -> candle::Error {
        Todo::parse("aten.foo.default in Net at net.py:3: no row maps it").into_candle()
    }

    #[test]
    fn a_todo_is_found_under_what_was_added_to_its_error() {
        for error in [
            todo(),
            todo().context("in the head"),
            todo().with_path("model.safetensors"),
            todo().context("inner").with_path("a").context("outer"),
        ] {
            let found = Stopped::by_error(&error);
            assert_eq!(found.todo.unwrap().op, "aten.foo.default");
            assert!(found
                .message
                .ends_with("TODO(torchport): aten.foo.default in Net at net.py:3: no row maps it"));
        }
    }

    #[test]
    fn a_text_that_only_looks_like_a_todo_is_none() {
        let error = candle::Error::Msg("TODO(torchport): aten.foo.default in Net".to_string());
        assert_eq!(Stopped::by_error(&error).todo, None);
    }

    #[test]
    fn frames_of_a_backtrace_are_no_part_of_the_message() {
        let backtrace = Box::new(std::backtrace::Backtrace::force_capture());
        let inner = Box::new(todo());
        let error = candle::Error::WithBacktrace { inner, backtrace }.context("in the head");
        assert!(error.to_string().contains("stop::tests"));
        let found = Stopped::by_error(&error);
        assert!(found
            .message
            .starts_with("in the head\nTODO(torchport): aten.foo.default"));
        assert!(!found.message.contains("stop::tests"));
    }

    #[test]
    fn a_panic_says_what_it_said() {
        for (run, said) in [
            (
                Box::new(|| panic!("at {}", 99)) as Box<dyn Fn() + std::panic::UnwindSafe>,
                "at 99",
            ),
            (Box::new(|| panic!("plain")), "plain"),
        ] {
            let payload = std::panic::catch_unwind(run).unwrap_err();
            assert_eq!(
                Stopped::by_panic(payload.as_ref()).message,
                format!("panicked: {said}")
            );
        }
    }
}
