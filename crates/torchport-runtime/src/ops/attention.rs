//! `torch.nn.functional.scaled_dot_product_attention`.
//!
//! A block of query rows at a time: scores, softmax with f64 sums, product with the values, so that
//! the scores of all queries never exist together.

use super::gemm::{gemm, Mat, Sizes, Target};
use super::matmul::{broadcast_shape, matmul};
use super::simd::simd;
use super::storage::{compute_dtype, tensor, with_real, Real, SharedMut, View};
use candle::{bail, DType, Result, Tensor, D};
use rayon::prelude::*;

const OP: &str = "scaled_dot_product_attention";

/// Attention of (…, heads, length, dim) tensors. `mask` is added when it is of a float dtype; a u8
/// mask keeps the scores where it is not 0. A row with nothing to attend to gives zeros. With
/// `enable_gqa` each head of `k` and `v` serves several consecutive heads of `q`.
pub fn sdpa(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    is_causal: bool,
    scale: Option<f64>,
    enable_gqa: bool,
) -> Result<Tensor> {
    if mask.is_some() && is_causal {
        bail!("{OP} takes a mask or is_causal, not both");
    }
    if q.dtype() != k.dtype() || q.dtype() != v.dtype() {
        bail!(
            "{OP}: dtypes {:?}, {:?}, {:?}",
            q.dtype(),
            k.dtype(),
            v.dtype()
        );
    }
    let mut shape = Attention::new(q, k, v, enable_gqa)?;
    shape.is_causal = is_causal;
    shape.scale = scale.unwrap_or(shape.scale);
    let dtype = compute_dtype(q.dtype(), OP)?;
    let mask = match mask {
        Some(mask) if mask.dtype() == DType::U8 => Some(mask.clone()),
        Some(mask) => Some(mask.to_dtype(dtype)?),
        None => None,
    };
    let mask = mask
        .map(|mask| mask.broadcast_as(shape.scores()))
        .transpose()?;
    let [q_wide, k, v] = [q.to_dtype(dtype)?, k.to_dtype(dtype)?, v.to_dtype(dtype)?];
    if !q.device().is_cpu() {
        return composed(&shape, &q_wide, &k, &v, mask.as_ref())?.to_dtype(q.dtype());
    }
    let dims = [&shape.batch[..], &[shape.queries, shape.value_dim]].concat();
    with_real!(dtype, T => {
        tensor(fused::<T>(&shape, &q_wide, &k, &v, mask.as_ref())?, &dims, q.dtype())
    })
}

struct Attention {
    batch: Vec<usize>,
    queries: usize,
    keys: usize,
    dim: usize,
    value_dim: usize,
    scale: f64,
    is_causal: bool,
}

impl Attention {
    fn new(q: &Tensor, k: &Tensor, v: &Tensor, enable_gqa: bool) -> Result<Self> {
        let wrong = || {
            format!(
                "{OP}: shapes {:?}, {:?}, {:?}",
                q.shape(),
                k.shape(),
                v.shape()
            )
        };
        let split = |x: &Tensor| match x.rank() {
            rank if rank < 2 => bail!("{}", wrong()),
            rank => Ok((
                x.dims()[..rank - 2].to_vec(),
                x.dims()[rank - 2],
                x.dims()[rank - 1],
            )),
        };
        let (mut batch, queries, dim) = split(q)?;
        let (keys, value_dim) = (split(k)?.1, split(v)?.2);
        if split(k)?.2 != dim || split(v)?.1 != keys {
            bail!("{}", wrong());
        }
        for x in [k, v] {
            let (mut other, ..) = split(x)?;
            if let (true, Some(heads), Some(goal)) = (enable_gqa, other.last_mut(), batch.last()) {
                if *heads == 0 || goal % *heads != 0 {
                    bail!("{}", wrong());
                }
                *heads = *goal;
            }
            batch = broadcast_shape(&batch, &other)?;
        }
        let scale = 1.0 / (dim as f64).sqrt();
        Ok(Self {
            batch,
            queries,
            keys,
            dim,
            value_dim,
            scale,
            is_causal: false,
        })
    }

    fn scores(&self) -> Vec<usize> {
        [&self.batch[..], &[self.queries, self.keys]].concat()
    }

    /// Where each matrix of `x` starts. An axis with fewer entries than the batch repeats each.
    fn starts(&self, x: &Tensor) -> Vec<usize> {
        let missing = self.batch.len() + 2 - x.rank();
        let mut starts = vec![0];
        for (axis, &count) in self.batch.iter().enumerate() {
            let (dim, stride) = match axis.checked_sub(missing) {
                Some(axis) => (x.dims()[axis], x.stride()[axis]),
                None => (1, 0),
            };
            let entries = |start: usize| (0..count).map(move |i| start + i * dim / count * stride);
            starts = starts.into_iter().flat_map(entries).collect();
        }
        starts
    }
}

/// Query rows at a time: as many scores as the second-level cache holds.
fn block_rows(keys: usize) -> usize {
    ((1 << 16) / keys.max(1)).clamp(16, 128)
}

fn fused<T: Real>(
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
    let views = [
        View::strided(q, OP)?,
        View::strided(k, OP)?,
        View::strided(v, OP)?,
    ];
    let [q, k, v] = [strides(q), strides(k), strides(v)];
    let [q_values, k_values, v_values] = [
        views[0].values()?,
        views[1].values()?,
        views[2].values::<T>()?,
    ];
    let mask_view = mask.map(|mask| View::strided(mask, OP)).transpose()?;
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
            let target = |values, start, row_stride| Target {
                values,
                start,
                row_stride,
                accumulate: false,
            };
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
    fn new(shape: &Attention, mask: &Tensor, view: &'a View) -> Result<Self> {
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

simd! {
    fn scale_row<T: Real>(row: &mut [T], factor: T) {
        for value in row {
            *value *= factor;
        }
    }
}

simd! {
    /// Replaces scores by `exp(score - maximum)` and returns their sum. When nothing is attended to,
    /// all are 0 and the sum is infinite, which makes the row's output 0.
    fn exponentials<T: Real>(scores: &mut [T]) -> f64 {
        const LANES: usize = 16;
        let lowest = T::narrow(f64::NEG_INFINITY);
        let mut maxima = [lowest; LANES];
        for chunk in scores.chunks(LANES) {
            for (maximum, &score) in maxima.iter_mut().zip(chunk) {
                *maximum = if score > *maximum { score } else { *maximum };
            }
        }
        let maximum = maxima.into_iter().fold(lowest, |a, b| if b > a { b } else { a });
        if maximum == lowest && scores.iter().all(|&score| score == lowest) {
            scores.fill(T::ZERO);
            return f64::INFINITY;
        }
        let mut sums = [0.0f64; LANES];
        for chunk in scores.chunks_mut(LANES) {
            for (sum, score) in sums.iter_mut().zip(chunk) {
                *score = (*score - maximum).exp();
                *sum += score.widen();
            }
        }
        sums.iter().sum()
    }
}

/// The same from candle's operations, for other devices.
fn composed(
    shape: &Attention,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
) -> Result<Tensor> {
    let (k, v) = (repeated_heads(shape, k)?, repeated_heads(shape, v)?);
    let mut scores = (matmul(q, &k.t()?)? * shape.scale)?.broadcast_as(shape.scores())?;
    let keep = match mask {
        Some(mask) if mask.dtype() == DType::U8 => Some(mask.clone()),
        Some(mask) => {
            scores = (scores + mask)?;
            None
        }
        None if shape.is_causal => {
            let row = |i| (0..shape.keys).map(move |j| u8::from(j <= i));
            let keep: Vec<u8> = (0..shape.queries).flat_map(row).collect();
            let keep = Tensor::from_vec(keep, (shape.queries, shape.keys), q.device())?;
            Some(keep.broadcast_as(shape.scores())?)
        }
        None => None,
    };
    if let Some(keep) = keep {
        let lowest = Tensor::new(f32::NEG_INFINITY, q.device())?.to_dtype(scores.dtype())?;
        scores = keep.where_cond(&scores, &lowest.broadcast_as(shape.scores())?)?;
    }
    // The floors keep a row with nothing to attend to at 0 instead of NaN.
    let maximum = scores.max_keepdim(D::Minus1)?.maximum(f32::MIN as f64)?;
    let weights = scores.broadcast_sub(&maximum)?.exp()?;
    let sums = weights
        .sum_keepdim(D::Minus1)?
        .maximum(f32::MIN_POSITIVE as f64)?;
    matmul(&weights, &v)?.broadcast_div(&sums)
}

fn repeated_heads(shape: &Attention, x: &Tensor) -> Result<Tensor> {
    let (outer, inner) = x.dims().split_at(x.rank() - 2);
    match (outer.last(), shape.batch.last()) {
        (Some(&heads), Some(&goal)) if heads != goal => {
            let wide = [outer, &[goal / heads], inner].concat();
            let x = x.unsqueeze(x.rank() - 2)?.broadcast_as(wide)?;
            x.reshape([&outer[..outer.len() - 1], &[goal], inner].concat())
        }
        _ => Ok(x.clone()),
    }
}
