//! Reasons why a check cannot be made. A tensor that differs is not one of them: see [`super::Comparison`].

use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error("{}: {source}", path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} is not a readable safetensors file: {source}", path.display())]
    Format {
        path: PathBuf,
        source: safetensors::SafeTensorError,
    },
    #[error("{}: metadata entry `{entry}` is not valid: {reason}", path.display())]
    Metadata {
        path: PathBuf,
        entry: &'static str,
        reason: String,
    },
    #[error("the golden trace {} has no tensor `{key}`", path.display())]
    MissingKey { path: PathBuf, key: String },
    #[error(
        "the golden trace {} has no limit for `{key}`: call .tolerance(rtol, atol) before .verify, or record the \
         model again with `torchport record`, which writes limits",
        path.display()
    )]
    NoLimit { path: PathBuf, key: String },
    #[error("tensor `{key}` has dtype {dtype}, which candle cannot hold")]
    UnsupportedDtype { key: String, dtype: String },
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Candle(#[from] candle::Error),
}

impl CheckError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        |source| Self::Io {
            path: path.to_path_buf(),
            source,
        }
    }

    pub(crate) fn format(path: &Path) -> impl FnOnce(safetensors::SafeTensorError) -> Self + '_ {
        |source| Self::Format {
            path: path.to_path_buf(),
            source,
        }
    }
}

/// So that `?` works in a `forward` that returns candle's `Result`.
impl From<CheckError> for candle::Error {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Candle(error) => error,
            error => candle::Error::wrap(error),
        }
    }
}
