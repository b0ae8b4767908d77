//! The verdict on one tensor, and the numbers that it rests on.

use super::error::CheckError;
use super::stats;
use candle::{Result, Tensor};

/// How far a floating value may be from the golden one: by `atol + rtol * |golden|`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    pub(super) rtol: f64,
    pub(super) atol: f64,
}

impl Allowance {
    pub(super) fn absolute(atol: f64) -> Self {
        Self { rtol: 0.0, atol }
    }

    /// A NaN anywhere is never within.
    pub(super) fn covers(&self, golden: f64, difference: f64) -> bool {
        difference <= self.atol + self.rtol * golden.abs()
    }
}

/// The result of comparing one tensor. The numbers are NaN if they mean nothing (the shapes differ), and infinite
/// if an element is NaN or infinite on one side only.
#[derive(Debug, Clone)]
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
    /// `allowed` is asked only if there are floating values to judge.
    pub(super) fn new(
        name: &str,
        golden: &Tensor,
        candidate: &Tensor,
        allowed: impl FnOnce() -> std::result::Result<Allowance, CheckError>,
    ) -> std::result::Result<Self, CheckError> {
        if golden.dims() != candidate.dims() {
            let reason = format!("shape {:?}, golden {:?}", candidate.dims(), golden.dims());
            return Ok(Self::incomparable(name, golden, candidate, reason));
        }
        let is_float = golden.dtype().is_float();
        if is_float != candidate.dtype().is_float() {
            let reason = format!(
                "dtype {}, golden {}",
                candidate.dtype().as_str(),
                golden.dtype().as_str()
            );
            return Ok(Self::incomparable(name, golden, candidate, reason));
        }
        let stats = match (is_float, golden.elem_count()) {
            (false, _) => stats::of_integers(golden, candidate)?,
            (true, 0) => stats::of_floats(golden, candidate, Allowance::absolute(0.0))?,
            (true, _) => stats::of_floats(golden, candidate, allowed()?)?,
        };
        Ok(stats.into_comparison(name, golden.dims()))
    }

    fn incomparable(name: &str, golden: &Tensor, candidate: &Tensor, reason: String) -> Self {
        Self {
            name: name.to_string(),
            passed: false,
            mse: f64::NAN,
            max_abs: f64::NAN,
            mean_abs: f64::NAN,
            cosine: f64::NAN,
            worst_index: None,
            golden_shape: golden.dims().to_vec(),
            candidate_shape: candidate.dims().to_vec(),
            reason: Some(reason),
        }
    }
}

/// Whether two tensors have the same dtype, shape and values, where a NaN equals a NaN.
pub(super) fn is_same(golden: &Tensor, candidate: &Tensor) -> Result<bool> {
    if golden.dtype() != candidate.dtype() || golden.dims() != candidate.dims() {
        return Ok(false);
    }
    stats::are_equal(golden, candidate)
}
