//! Attention on a block of query rows at a time: scores, softmax with f64 sums, product with the
//! values. The scores of all queries never exist together.

use super::attention::Attention;
use super::gemm::{gemm, Sizes};
use super::kernel::vectorised;
use super::matrix::{Mat, Target};
use super::real::{Real, SharedMut, Strided};
use candle::{DType, Result, Tensor};
use rayon::prelude::*;

/// Query rows at a time: as many scores as the second-level cache holds.
fn block_rows(keys: usize) -> usize {
    ((1 << 16) / keys.max(1)).clamp(16, 128)
}

pub(super) fn attend<T: Real>(
    shape: &Attention,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
) -> Result<Vec<T>> {
    let matrix = shape.queries * shape.value_dim;
    let starts = [shape.starts(q), shape.starts(k), shape.starts(v)];
    let mut y = vec![T::ZERO; starts[0].len() * matrix];
    if y.is_empty() || shape.keys == 0 {
        return Ok(y);
    }
    let views = [Strided::new(q), Strided::new(k), Strided::new(v)];
    let [q, k, v] = [strides(q), strides(k), strides(v)];
    let [q_values, k_values, v_values] = [
        views[0].values()?,
        views[1].values()?,
        views[2].values::<T>()?,
    ];
    let mask_view = mask.map(Strided::new);
    let mask = match (mask, &mask_view) {
        (Some(mask), Some(view)) => Some(Mask::<T>::new(shape, mask, view)?),
        _ => None,
    };
    let rows = block_rows(shape.keys);
    let blocks = shape.queries.div_ceil(rows);
    let values = SharedMut::new(&mut y);
    (0..starts[0].len() * blocks)
        .into_par_iter()
        .for_each_init(Vec::new, |scores, index| {
            let (head, first) = (index / blocks, index % blocks * rows);
            let rows = rows.min(shape.queries - first);
            let keys = match shape.is_causal {
                true => shape.keys.min(first + rows),
                false => shape.keys,
            };
            scores.resize(rows * keys, T::ZERO);
            let target = |values, start, row_stride| Target::new(values, start, row_stride, false);
            let q = Mat::new(&q_values[starts[0][head] + first * q[0]..], q[0], q[1]);
            let keys_t = Mat::new(&k_values[starts[1][head]..], k[1], k[0]);
            let goal = target(SharedMut::new(scores), 0, keys);
            // SAFETY: `scores` belongs to this thread.
            unsafe {
                gemm(
                    Sizes {
                        m: rows,
                        n: keys,
                        k: shape.dim,
                    },
                    goal,
                    q,
                    keys_t,
                    false,
                )
            };
            let mut sums = [0.0; 128];
            for (row, (scores, sum)) in scores.chunks_mut(keys).zip(&mut sums).enumerate() {
                let query = first + row;
                let seen = if shape.is_causal {
                    keys.min(query + 1)
                } else {
                    keys
                };
                let (scores, unseen) = scores.split_at_mut(seen);
                unseen.fill(T::ZERO);
                scale_row(scores, T::narrow(shape.scale));
                if let Some(mask) = &mask {
                    mask.apply(head, query, scores);
                }
                *sum = exponentials(scores);
            }
            let start = head * matrix + first * shape.value_dim;
            let v = Mat::new(&v_values[starts[2][head]..], v[0], v[1]);
            let sizes = Sizes {
                m: rows,
                n: shape.value_dim,
                k: keys,
            };
            let weights = Mat::new(scores, keys, 1);
            // SAFETY: this block's rows of `y` are written by no one else.
            let y = unsafe {
                gemm(
                    sizes,
                    target(values, start, shape.value_dim),
                    weights,
                    v,
                    false,
                );
                std::slice::from_raw_parts_mut(values.offset(start), rows * shape.value_dim)
            };
            for (y, sum) in y.chunks_mut(shape.value_dim).zip(sums) {
                scale_row(y, T::narrow(1.0 / sum));
            }
        });
    Ok(y)
}

fn strides(x: &Tensor) -> [usize; 2] {
    [x.stride()[x.rank() - 2], x.stride()[x.rank() - 1]]
}

/// A mask expanded to the shape of the scores.
struct Mask<'a, T> {
    values: MaskValues<'a, T>,
    starts: Vec<usize>,
    strides: [usize; 2],
}

enum MaskValues<'a, T> {
    Added(&'a [T]),
    Kept(&'a [u8]),
}

impl<'a, T: Real> Mask<'a, T> {
    fn new(shape: &Attention, mask: &Tensor, view: &'a Strided) -> Result<Self> {
        let values = match mask.dtype() {
            DType::U8 => MaskValues::Kept(view.values()?),
            _ => MaskValues::Added(view.values()?),
        };
        Ok(Self {
            values,
            starts: shape.starts(mask),
            strides: strides(mask),
        })
    }

    fn apply(&self, head: usize, query: usize, scores: &mut [T]) {
        let start = self.starts[head] + query * self.strides[0];
        // A stride of 0 repeats one value, which `step_by` cannot.
        let step = self.strides[1].max(1);
        let count = if self.strides[1] == 0 {
            1
        } else {
            scores.len()
        };
        match self.values {
            MaskValues::Added(values) => {
                let mut row = values[start..].iter().step_by(step).take(count).cycle();
                scores
                    .iter_mut()
                    .zip(&mut row)
                    .for_each(|(score, &value)| *score += value);
            }
            MaskValues::Kept(values) => {
                let lowest = T::narrow(f64::NEG_INFINITY);
                let mut row = values[start..].iter().step_by(step).take(count).cycle();
                scores
                    .iter_mut()
                    .zip(&mut row)
                    .filter(|(_, &keep)| keep == 0)
                    .for_each(|(score, _)| *score = lowest);
            }
        }
    }
}

fn scale_row<T: Real>(row: &mut [T], factor: T) {
    vectorised(
        #[inline(always)]
        || {
            for value in row {
                *value *= factor;
            }
        },
    )
}

/// Replaces scores by `exp(score - maximum)` and returns their sum. When nothing is attended to,
/// all are 0 and the sum is infinite, which makes the row's output 0.
fn exponentials<T: Real>(scores: &mut [T]) -> f64 {
    vectorised(
        #[inline(always)]
        || {
            const LANES: usize = 16;
            let lowest = T::narrow(f64::NEG_INFINITY);
            let mut maxima = [lowest; LANES];
            for chunk in scores.chunks(LANES) {
                for (maximum, &score) in maxima.iter_mut().zip(chunk) {
                    *maximum = if score > *maximum { score } else { *maximum };
                }
            }
            let maximum = maxima
                .into_iter()
                .fold(lowest, |a, b| if b > a { b } else { a });
            if maximum == lowest && scores.iter().all(|&score| score == lowest) {
                scores.fill(T::ZERO);
                return f64::INFINITY;
            }
            let mut sums = [0.0f64; LANES];
            for chunk in scores.chunks_mut(LANES) {
                for (sum, score) in sums.iter_mut().zip(chunk) {
                    *score = (*score - maximum).exp_of_negative();
                    *sum += score.widen();
                }
            }
            sums.iter().sum()
        },
    )
}
