//! The difference between a golden and a candidate tensor, in one pass with float64 accumulators.

use super::compare::{Allowance, Comparison};
use candle::{DType, Device, Result, Tensor};
use rayon::prelude::*;

const CHUNK: usize = 1 << 16;

/// Sums over the elements that are finite on both sides, and the worst of them.
#[derive(Default)]
pub(super) struct Stats {
    count: usize,
    squares: f64,
    absolutes: f64,
    dot: f64,
    golden_squares: f64,
    candidate_squares: f64,
    max_abs: f64,
    worst: Option<usize>,
    /// Elements that are further from the golden one than they may be.
    outside: usize,
    /// Elements that are NaN or infinite on one side, or not the same on both.
    misplaced: usize,
    first_misplaced: Option<usize>,
    /// In words, the rule by which elements are outside.
    rule: String,
}

impl Stats {
    fn add(&mut self, index: usize, golden: f64, candidate: f64, difference: f64, within: bool) {
        self.count += 1;
        self.outside += usize::from(!within);
        self.squares += difference * difference;
        self.absolutes += difference;
        self.dot += golden * candidate;
        self.golden_squares += golden * golden;
        self.candidate_squares += candidate * candidate;
        if difference > self.max_abs || self.worst.is_none() {
            self.max_abs = difference;
            self.worst = Some(index);
        }
    }

    fn add_not_finite(&mut self, index: usize, golden: f64, candidate: f64) {
        self.count += 1;
        if !equal(golden, candidate) {
            self.misplaced += 1;
            self.first_misplaced.get_or_insert(index);
        }
    }

    fn merge(mut self, later: Stats) -> Self {
        self.count += later.count;
        self.squares += later.squares;
        self.absolutes += later.absolutes;
        self.dot += later.dot;
        self.golden_squares += later.golden_squares;
        self.candidate_squares += later.candidate_squares;
        self.outside += later.outside;
        if later.max_abs > self.max_abs || self.worst.is_none() {
            self.max_abs = later.max_abs;
            self.worst = later.worst;
        }
        self.misplaced += later.misplaced;
        self.first_misplaced = self.first_misplaced.or(later.first_misplaced);
        self
    }

    fn cosine(&self) -> f64 {
        match (self.golden_squares == 0.0, self.candidate_squares == 0.0) {
            (true, true) => 1.0,
            (true, false) | (false, true) => 0.0,
            _ => self.dot / (self.golden_squares.sqrt() * self.candidate_squares.sqrt()),
        }
    }

    pub(super) fn into_comparison(self, name: &str, dims: &[usize]) -> Comparison {
        let mean = |sum: f64| match (self.misplaced, self.count) {
            (0, 0) => 0.0,
            (0, count) => sum / count as f64,
            _ => f64::INFINITY,
        };
        let worst = self.first_misplaced.or(self.worst);
        let worst_index = worst.map(|flat| unravel(flat, dims));
        let reason = if self.misplaced > 0 {
            Some(format!(
                "{} elements are NaN or infinite on one side only, the first at {:?}",
                self.misplaced,
                worst_index.as_deref().unwrap_or_default()
            ))
        } else {
            (self.outside > 0)
                .then(|| format!("{} of {} elements {}", self.outside, self.count, self.rule))
        };
        Comparison {
            name: name.to_string(),
            passed: reason.is_none(),
            mse: mean(self.squares),
            max_abs: match self.misplaced {
                0 => self.max_abs,
                _ => f64::INFINITY,
            },
            mean_abs: mean(self.absolutes),
            cosine: match self.misplaced {
                0 => self.cosine(),
                _ => f64::NAN,
            },
            worst_index,
            golden_shape: dims.to_vec(),
            candidate_shape: dims.to_vec(),
            reason,
        }
    }
}

pub(super) fn of_floats(
    golden: &Tensor,
    candidate: &Tensor,
    allowance: Allowance,
) -> Result<Stats> {
    let parts = over_chunks(golden, candidate, |offset, golden, candidate| {
        let mut stats = Stats::default();
        let pairs = floats(golden)?.into_iter().zip(floats(candidate)?);
        for (index, (golden, candidate)) in (offset..).zip(pairs) {
            if golden.is_finite() && candidate.is_finite() {
                let difference = (candidate - golden).abs();
                let within = allowance.covers(golden, difference);
                stats.add(index, golden, candidate, difference, within);
            } else {
                stats.add_not_finite(index, golden, candidate);
            }
        }
        Ok(stats)
    })?;
    let Allowance { rtol, atol } = allowance;
    Ok(Stats {
        rule: format!("differ by more than atol {atol:.3e} + rtol {rtol:.3e} * |golden|"),
        ..merged(parts)
    })
}

pub(super) fn of_integers(golden: &Tensor, candidate: &Tensor) -> Result<Stats> {
    let parts = over_chunks(golden, candidate, |offset, golden, candidate| {
        let mut stats = Stats::default();
        let pairs = integers(golden)?.into_iter().zip(integers(candidate)?);
        for (index, (golden, candidate)) in (offset..).zip(pairs) {
            let difference = golden.abs_diff(candidate) as f64;
            let within = golden == candidate;
            stats.add(index, golden as f64, candidate as f64, difference, within);
        }
        Ok(stats)
    })?;
    Ok(Stats {
        rule: "differ, and integers have to be equal".to_string(),
        ..merged(parts)
    })
}

/// Whether two tensors of one shape and kind have the same values, where a NaN equals a NaN.
pub(super) fn are_equal(golden: &Tensor, candidate: &Tensor) -> Result<bool> {
    let parts = over_chunks(golden, candidate, |_, golden, candidate| {
        Ok(match golden.dtype().is_float() {
            true => {
                let pairs = floats(golden)?.into_iter().zip(floats(candidate)?);
                pairs.into_iter().all(|(a, b)| equal(a, b))
            }
            false => integers(golden)? == integers(candidate)?,
        })
    })?;
    Ok(parts.into_iter().all(|chunk_is_equal| chunk_is_equal))
}

fn equal(golden: f64, candidate: f64) -> bool {
    golden == candidate || (golden.is_nan() && candidate.is_nan())
}

/// The result of each chunk in the order of the tensors. Chunks keep the widened copies small.
fn over_chunks<T: Send>(
    golden: &Tensor,
    candidate: &Tensor,
    chunk: impl Fn(usize, Tensor, Tensor) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let golden = golden.to_device(&Device::Cpu)?.flatten_all()?;
    let candidate = candidate.to_device(&Device::Cpu)?.flatten_all()?;
    let count = golden.elem_count();
    (0..count.div_ceil(CHUNK))
        .into_par_iter()
        .map(|number| {
            let offset = number * CHUNK;
            let len = CHUNK.min(count - offset);
            chunk(
                offset,
                golden.narrow(0, offset, len)?,
                candidate.narrow(0, offset, len)?,
            )
        })
        .collect()
}

/// Chunks are merged in order, so that the sums do not depend on the threads.
fn merged(parts: Vec<Stats>) -> Stats {
    parts.into_iter().fold(Stats::default(), Stats::merge)
}

fn integers(values: Tensor) -> Result<Vec<i64>> {
    values.to_dtype(DType::I64)?.to_vec1()
}

fn floats(values: Tensor) -> Result<Vec<f64>> {
    widen(&values)?.to_dtype(DType::F64)?.to_vec1()
}

/// Candle's cast of float8 to float64 does not end; through float32 it does.
pub(super) fn widen(values: &Tensor) -> Result<Tensor> {
    match values.dtype() {
        DType::F8E4M3 => values.to_dtype(DType::F32),
        _ => Ok(values.clone()),
    }
}

fn unravel(mut flat: usize, dims: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = dims
        .iter()
        .rev()
        .map(|&size| {
            let at = flat % size;
            flat /= size;
            at
        })
        .collect();
    index.reverse();
    index
}
