//! The difference between a golden and a candidate tensor, in one pass with float64 accumulators.

use super::compare::{Comparison, Tolerance};
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
    /// The largest `|difference| - rtol * |golden|`: within tolerance when no more than atol.
    excess: f64,
    /// Elements that are NaN or infinite on one side, or not the same on both.
    misplaced: usize,
    first_misplaced: Option<usize>,
    rule: String,
    failed: bool,
}

impl Stats {
    fn add(&mut self, index: usize, golden: f64, candidate: f64, difference: f64, rtol: f64) {
        self.count += 1;
        self.squares += difference * difference;
        self.absolutes += difference;
        self.dot += golden * candidate;
        self.golden_squares += golden * golden;
        self.candidate_squares += candidate * candidate;
        self.excess = self.excess.max(difference - rtol * golden.abs());
        if difference > self.max_abs || self.worst.is_none() {
            self.max_abs = difference;
            self.worst = Some(index);
        }
    }

    fn add_not_finite(&mut self, index: usize, golden: f64, candidate: f64) {
        self.count += 1;
        let same = golden == candidate || (golden.is_nan() && candidate.is_nan());
        if !same {
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
        self.excess = self.excess.max(later.excess);
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
            self.failed.then(|| self.rule.clone())
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
    tolerance: Tolerance,
) -> Result<Stats> {
    let (rtol, atol) = match tolerance {
        Tolerance::Default => default_tolerance(golden.dtype(), candidate.dtype()),
        Tolerance::Fixed { rtol, atol } => (rtol, atol),
    };
    let mut stats = over_chunks(golden, candidate, |offset, golden, candidate| {
        let golden = floats(golden)?;
        let candidate = floats(candidate)?;
        let mut stats = Stats::default();
        for (at, (&golden, &candidate)) in golden.iter().zip(&candidate).enumerate() {
            if golden.is_finite() && candidate.is_finite() {
                let difference = (candidate - golden).abs();
                stats.add(offset + at, golden, candidate, difference, rtol);
            } else {
                stats.add_not_finite(offset + at, golden, candidate);
            }
        }
        Ok(stats)
    })?;
    let rms = (stats.golden_squares / stats.count.max(1) as f64).sqrt();
    let atol = match tolerance {
        Tolerance::Default => atol * rms.max(1.0),
        Tolerance::Fixed { .. } => atol,
    };
    stats.failed = stats.excess > atol;
    stats.rule = format!("out of tolerance: rtol {rtol:.3e}, atol {atol:.3e}");
    Ok(stats)
}

pub(super) fn of_integers(golden: &Tensor, candidate: &Tensor) -> Result<Stats> {
    let mut stats = over_chunks(golden, candidate, |offset, golden, candidate| {
        let golden = golden.to_dtype(DType::I64)?.to_vec1::<i64>()?;
        let candidate = candidate.to_dtype(DType::I64)?.to_vec1::<i64>()?;
        let mut stats = Stats::default();
        for (at, (&golden, &candidate)) in golden.iter().zip(&candidate).enumerate() {
            let difference = golden.abs_diff(candidate) as f64;
            stats.add(
                offset + at,
                golden as f64,
                candidate as f64,
                difference,
                0.0,
            );
        }
        Ok(stats)
    })?;
    stats.failed = stats.max_abs > 0.0;
    stats.rule = "integers differ".to_string();
    Ok(stats)
}

/// Chunks keep the float64 copies small; they are merged in order, so the sums do not depend on the threads.
fn over_chunks(
    golden: &Tensor,
    candidate: &Tensor,
    chunk: impl Fn(usize, Tensor, Tensor) -> Result<Stats> + Sync,
) -> Result<Stats> {
    let golden = golden.to_device(&Device::Cpu)?.flatten_all()?;
    let candidate = candidate.to_device(&Device::Cpu)?.flatten_all()?;
    let count = golden.elem_count();
    let parts = (0..count.div_ceil(CHUNK))
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
        .collect::<Result<Vec<_>>>()?;
    Ok(parts.into_iter().fold(Stats::default(), Stats::merge))
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

fn default_tolerance(golden: DType, candidate: DType) -> (f64, f64) {
    let of = |dtype| -> (f64, f64) {
        match dtype {
            DType::F32 | DType::F64 => (1e-4, 1e-5),
            DType::F16 => (5e-3, 1e-3),
            DType::BF16 => (3e-2, 1e-2),
            _ => (2e-1, 1e-1),
        }
    };
    let (golden, candidate) = (of(golden), of(candidate));
    (golden.0.max(candidate.0), golden.1.max(candidate.1))
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
