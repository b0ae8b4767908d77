//! What a checked run came to.

use super::checker::Mode;
use super::compare::Comparison;
use super::error::CheckError;
use super::files;
use serde::Serialize;
use std::path::Path;

#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    pub mode: Mode,
    /// The run ended well, everything compared passed, something was compared, and no call was left out.
    pub passed: bool,
    /// In the order of the run.
    pub comparisons: Vec<Comparison>,
    /// Calls in the golden trace that the run never reached.
    pub unvisited: Vec<String>,
    /// What ended the run early.
    pub error: Option<String>,
}

impl Summary {
    pub(super) fn new(
        mode: Mode,
        comparisons: Vec<Comparison>,
        unvisited: Vec<String>,
        error: Option<String>,
    ) -> Self {
        let all_passed = comparisons.iter().all(|comparison| comparison.passed);
        let passed =
            !comparisons.is_empty() && all_passed && unvisited.is_empty() && error.is_none();
        Self {
            mode,
            passed,
            comparisons,
            unvisited,
            error,
        }
    }

    pub fn write_json(&self, path: impl AsRef<Path>) -> Result<(), CheckError> {
        let path = path.as_ref();
        let beside = files::beside(path, "tmp");
        std::fs::write(&beside, serde_json::to_vec_pretty(self)?)
            .map_err(CheckError::io(&beside))?;
        std::fs::rename(&beside, path).map_err(CheckError::io(path))
    }
}
