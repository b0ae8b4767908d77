//! How often values occur: in equal bins, and as small numbers.

use super::kernel::with_slice;
use super::real::{for_real, real_dtype, tensor_like, with_values, Real};
use super::{full, index_put, to_dtype};
use candle::{bail, DType, Result, Tensor};

/// How many elements fall into each of `bins` equal bins from `low` to `high`; what lies outside, and
/// not a number, is left out. If `low` and `high` are equal, the bins span the elements.
pub fn histc(x: &Tensor, bins: usize, low: f64, high: f64) -> Result<Tensor> {
    if bins == 0 || low > high {
        bail!("histc: {bins} bins from {low} to {high}")
    }
    for_real!(real_dtype("histc", x.dtype())?, T => {
        let counts = with_values::<T, _>(x, |values| bin_counts(values, bins, low, high))?;
        tensor_like(x, counts, &[bins])
    })
}

/// Positions are computed in the precision of the elements, as torch does.
fn bin_counts<T: Real>(values: &[T], bins: usize, low: f64, high: f64) -> Result<Vec<f64>> {
    let (mut low, mut high) = (T::narrow(low), T::narrow(high));
    if low == high {
        if let Some(&first) = values.first() {
            let ends = |(a, b): (T, T), &v: &T| {
                let (below, above) = (v < a || v.widen().is_nan(), v > b || v.widen().is_nan());
                (if below { v } else { a }, if above { v } else { b })
            };
            (low, high) = values.iter().fold((first, first), ends);
        }
        if low == high {
            (low, high) = (low - T::ONE, high + T::ONE);
        }
    }
    if !low.widen().is_finite() || !high.widen().is_finite() {
        bail!("histc: the range of the elements is not finite")
    }
    let width = T::narrow(bins as f64);
    let mut counts = vec![0.0; bins];
    for &v in values.iter().filter(|&&v| v >= low && v <= high) {
        let bin = ((v - low) * width / (high - low)).widen() as usize;
        counts[bin.min(bins - 1)] += 1.0;
    }
    Ok(counts)
}

/// How often each number from 0 on occurs in `x`, or the sum of its `weights`; at least `least` counts.
pub fn bincount(x: &Tensor, weights: Option<&Tensor>, least: usize) -> Result<Tensor> {
    let places = x.reshape(x.elem_count())?;
    let places = to_dtype(&places, DType::I64)?;
    let largest = with_slice(&places, |values: &[i64]| {
        if values.iter().any(|&v| v < 0) {
            bail!("bincount: a number is negative")
        }
        Ok(values.iter().max().map_or(0, |&v| v as usize + 1))
    })?;
    let bins = largest.max(least);
    let (dtype, values) = match weights {
        None => (DType::I64, full(&[], 1.0, DType::I64, x.device())?),
        Some(w) if w.dtype() == DType::F32 => (DType::F32, w.clone()),
        Some(w) => (DType::F64, to_dtype(w, DType::F64)?),
    };
    let zeros = full(&[bins], 0.0, DType::F64, x.device())?;
    let values = to_dtype(&values, DType::F64)?;
    to_dtype(&index_put(&zeros, &[Some(&places)], &values, true)?, dtype)
}

/// `x.repeat_interleave(repeats, dim)`: each row along `dim` as often as `repeats` says.
pub fn repeat_each(x: &Tensor, repeats: &Tensor, dim: usize) -> Result<Tensor> {
    super::index_select(x, dim, &repeated_positions(repeats)?)
}

/// Each position as often as the number there says.
pub fn repeated_positions(repeats: &Tensor) -> Result<Tensor> {
    let positions = with_slice(&to_dtype(repeats, DType::I64)?, |counts: &[i64]| {
        let mut out = vec![];
        for (i, &count) in counts.iter().enumerate() {
            match usize::try_from(count) {
                Ok(count) => out.extend(std::iter::repeat_n(i as i64, count)),
                Err(_) => bail!("repeat_interleave: {count} repeats"),
            }
        }
        Ok(out)
    })?;
    let count = positions.len();
    Tensor::from_vec(positions, count, repeats.device())
}

/// The different elements in ascending order, the place of each element among them (i64, in the shape of
/// `x`), and how often each occurs (i64). Not a number differs from itself.
pub fn unique(x: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let flat = x.flatten_all()?;
    let (values, order) = super::sort(&flat, 0, false)?;
    let (values, places, counts) = unique_consecutive(&values)?;
    let zeros = full(&[x.elem_count()], 0.0, DType::I64, x.device())?;
    let places = index_put(&zeros, &[Some(&order)], &places, false)?;
    Ok((values, places.reshape(x.shape())?, counts))
}

/// Like `unique` for runs of equal elements, in the order that they have.
pub fn unique_consecutive(x: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let flat = x.flatten_all()?;
    let (mut firsts, mut places, mut counts) = (vec![], vec![], vec![]);
    let changes = changes(&flat)?;
    for (i, is_new) in changes.into_iter().enumerate() {
        if is_new {
            firsts.push(i as i64);
            counts.push(0i64);
        }
        if let Some(count) = counts.last_mut() {
            *count += 1;
        }
        places.push(firsts.len() as i64 - 1);
    }
    let found = firsts.len();
    let firsts = Tensor::from_vec(firsts, found, x.device())?;
    let places = Tensor::from_vec(places, x.shape(), x.device())?;
    let counts = Tensor::from_vec(counts, found, x.device())?;
    Ok((super::index_select(&flat, 0, &firsts)?, places, counts))
}

/// For each element whether it differs from the one before.
fn changes(x: &Tensor) -> Result<Vec<bool>> {
    fn of<T: super::cast::Element>(x: &Tensor) -> Result<Vec<bool>> {
        with_slice(x, |values: &[T]| {
            Ok((0..values.len())
                .map(|i| i == 0 || values[i] != values[i - 1])
                .collect())
        })
    }
    super::kernel::for_dtype!("unique", x.dtype(), T => of::<T>(x))
}
