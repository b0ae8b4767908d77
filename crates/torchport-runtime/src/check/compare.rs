//! The verdict on one tensor, and what it rests on.

use super::stats;
use candle::{Result, Tensor};
use serde::Serialize;

/// How far a floating value may be from the golden one. Integers and bools have to be equal.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tolerance {
    /// By dtype (float32: rtol 1e-4, atol 1e-5), where atol grows with the RMS of a golden tensor above one.
    Default,
    /// `|candidate - golden| <= atol + rtol * |golden|` for every element.
    Fixed { rtol: f64, atol: f64 },
}

/// What came out of comparing one tensor. The numbers are NaN where they mean nothing (shapes that differ) and
/// infinite where one side alone is NaN or infinite; both are `null` in JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    pub name: String,
    pub passed: bool,
    pub mse: f64,
    pub max_abs: f64,
    pub mean_abs: f64,
    pub cosine: f64,
    pub worst_index: Option<Vec<usize>>,
    pub golden_shape: Vec<usize>,
    pub candidate_shape: Vec<usize>,
    /// Why it did not pass.
    pub reason: Option<String>,
}

impl Comparison {
    pub(super) fn new(
        name: &str,
        golden: &Tensor,
        candidate: &Tensor,
        tolerance: Tolerance,
    ) -> Result<Self> {
        if golden.dims() != candidate.dims() {
            let reason = format!("shape {:?}, golden {:?}", candidate.dims(), golden.dims());
            return Ok(Self::incomparable(name, golden.dims(), candidate, reason));
        }
        let is_float = golden.dtype().is_float();
        if is_float != candidate.dtype().is_float() {
            let reason = format!(
                "dtype {}, golden {}",
                candidate.dtype().as_str(),
                golden.dtype().as_str()
            );
            return Ok(Self::incomparable(name, golden.dims(), candidate, reason));
        }
        let stats = match is_float {
            true => stats::of_floats(golden, candidate, tolerance)?,
            false => stats::of_integers(golden, candidate)?,
        };
        Ok(stats.into_comparison(name, golden.dims()))
    }

    pub(super) fn missing(name: &str, candidate: &Tensor) -> Self {
        let reason = "missing: the golden trace has no such tensor".to_string();
        Self::incomparable(name, &[], candidate, reason)
    }

    fn incomparable(name: &str, golden: &[usize], candidate: &Tensor, reason: String) -> Self {
        Self {
            name: name.to_string(),
            passed: false,
            mse: f64::NAN,
            max_abs: f64::NAN,
            mean_abs: f64::NAN,
            cosine: f64::NAN,
            worst_index: None,
            golden_shape: golden.to_vec(),
            candidate_shape: candidate.dims().to_vec(),
            reason: Some(reason),
        }
    }
}
