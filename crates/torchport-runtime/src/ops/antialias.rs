//! Resizing that averages over all inputs that an output covers, so that fine patterns do not alias.

use super::real::{for_real, real_dtype, tensor_like, with_values, Real};
use candle::{bail, DType, Result, Tensor};

/// How inputs are weighed by their distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weighing {
    Linear,
    Cubic,
}

impl Weighing {
    fn reach(self) -> f64 {
        match self {
            Self::Linear => 1.0,
            Self::Cubic => 2.0,
        }
    }

    fn weight(self, distance: f64) -> f64 {
        const A: f64 = -0.5;
        let x = distance.abs();
        match self {
            Self::Linear => (1.0 - x).max(0.0),
            Self::Cubic if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
            Self::Cubic if x < 2.0 => ((x - 5.0) * x + 8.0) * x * A - 4.0 * A,
            Self::Cubic => 0.0,
        }
    }
}

/// The last two dimensions resized to `output`. `scales` holds the scale factor per axis where the
/// caller gave one.
pub fn upsample_antialiased(
    x: &Tensor,
    output: &[usize],
    weighing: Weighing,
    align_corners: bool,
    scales: &[Option<f64>],
) -> Result<Tensor> {
    let first = x.rank() - output.len();
    if x.rank() != 4 || output.len() != 2 || x.dims()[first..].contains(&0) || output.contains(&0) {
        bail!("no resizing of {:?} to {output:?}", x.shape());
    }
    let dtype = real_dtype("interpolation", x.dtype())?;
    let mut dims = x.dims().to_vec();
    for_real!(dtype, T => {
        let mut values = with_values::<T, _>(x, |x| Ok(x.to_vec()))?;
        for axis in (0..2).rev() {
            let (input, output) = (dims[first + axis], output[axis]);
            let scale = scales.get(axis).copied().flatten();
            let step = step(input, output, align_corners, scale, dtype);
            let table: Vec<_> = (0..output).map(|i| covered(i, input, step, weighing, dtype)).collect();
            let inner: usize = dims[first + axis + 1..].iter().product();
            values = blend(&values, input, inner, &table);
            dims[first + axis] = output;
        }
        tensor_like(x, values, &dims)
    })
}

/// Numbers are rounded where torch rounds them, so that both agree on which inputs are covered.
fn rounded(v: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F64 => v,
        _ => v as f32 as f64,
    }
}

fn step(input: usize, output: usize, align_corners: bool, scale: Option<f64>, dtype: DType) -> f64 {
    let step = match (align_corners, scale) {
        (true, _) if output > 1 => (input - 1) as f64 / (output - 1) as f64,
        (true, _) => 0.0,
        (false, Some(scale)) if scale > 0.0 => 1.0 / scale,
        (false, _) => input as f64 / output as f64,
    };
    rounded(step, dtype)
}

/// The first input that an output covers, and the weights from there on.
fn covered(
    i: usize,
    input: usize,
    step: f64,
    weighing: Weighing,
    dtype: DType,
) -> (usize, Vec<f64>) {
    let r = |v: f64| rounded(v, dtype);
    let reach = if step >= 1.0 {
        r(weighing.reach() * step)
    } else {
        weighing.reach()
    };
    let narrowing = if step >= 1.0 { r(1.0 / step) } else { 1.0 };
    let centre = r(step * r(i as f64 + 0.5));
    let first = r(r(centre - reach) + 0.5).max(0.0) as usize;
    let end = (r(r(centre + reach) + 0.5).max(0.0) as usize).min(input);
    let place = |j: usize| r(r(r(j as f64 + first as f64) - centre) + 0.5) * narrowing;
    let weights: Vec<f64> = (0..end.saturating_sub(first))
        .map(|j| weighing.weight(place(j)))
        .collect();
    let total: f64 = weights.iter().sum();
    let share = if total == 0.0 { 1.0 } else { total };
    (first, weights.iter().map(|w| w / share).collect())
}

/// The middle axis of (outer, len, inner) values, each output a blend of the inputs in its entry.
fn blend<T: Real>(x: &[T], len: usize, inner: usize, table: &[(usize, Vec<f64>)]) -> Vec<T> {
    let mut y = Vec::with_capacity(x.len() / len * table.len());
    for plane in x.chunks(len * inner) {
        for (first, weights) in table {
            for column in 0..inner {
                let taps = weights.iter().enumerate();
                let sum: f64 = taps
                    .map(|(j, w)| plane[(first + j) * inner + column].widen() * w)
                    .sum();
                y.push(T::narrow(sum));
            }
        }
    }
    y
}
