//! `torch.nn.functional.scaled_dot_product_attention`: its rules for shapes and masks.

use super::attention_blocks::attend;
use super::kernel::broadcast_shape;
use super::matmul::matmul;
use super::real::{for_real, real_dtype, tensor_like};
use candle::{bail, DType, Result, Tensor, D};

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
    let dtype = real_dtype(OP, q.dtype())?;
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
    for_real!(dtype, T => {
        tensor_like(q, attend::<T>(&shape, &q_wide, &k, &v, mask.as_ref())?, &dims)
    })
}

pub(super) struct Attention {
    pub batch: Vec<usize>,
    pub queries: usize,
    pub keys: usize,
    pub dim: usize,
    pub value_dim: usize,
    pub scale: f64,
    pub is_causal: bool,
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
    pub fn starts(&self, x: &Tensor) -> Vec<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use candle::Device;

    fn random(shape: &[usize]) -> Result<Tensor> {
        Tensor::randn(0f32, 1.0, shape, &Device::Cpu)
    }

    fn close(a: &Tensor, b: &Tensor) -> Result<bool> {
        let distance = (a - b)?.abs()?.flatten_all()?.max(0)?.to_scalar::<f32>()?;
        Ok(a.dims() == b.dims() && distance < 1e-5)
    }

    #[test]
    fn blocks_agree_with_the_composition() -> Result<()> {
        let (q, k, v) = (
            random(&[2, 6, 70, 16])?,
            random(&[2, 2, 90, 16])?,
            random(&[2, 2, 90, 24])?,
        );
        let bias = random(&[2, 1, 70, 90])?;
        let keep = bias.gt(0f32)?;
        for (mask, is_causal) in [
            (None, false),
            (None, true),
            (Some(&bias), false),
            (Some(&keep), false),
        ] {
            let y = sdpa(&q, &k, &v, mask, is_causal, Some(0.3), true)?;
            let mut shape = Attention::new(&q, &k, &v, true)?;
            (shape.is_causal, shape.scale) = (is_causal, 0.3);
            let mask = mask
                .map(|mask| mask.broadcast_as(shape.scores()))
                .transpose()?;
            assert!(close(&y, &composed(&shape, &q, &k, &v, mask.as_ref())?)?);
        }
        Ok(())
    }

    #[test]
    fn rows_with_nothing_to_attend_to_are_zero() -> Result<()> {
        let (q, k, v) = (
            random(&[1, 2, 4])?,
            random(&[1, 3, 4])?,
            random(&[1, 3, 4])?,
        );
        let keep = Tensor::new(&[[1u8, 0, 1], [0, 0, 0]], &Device::Cpu)?;
        let y = sdpa(&q, &k, &v, Some(&keep), false, None, false)?
            .squeeze(0)?
            .to_vec2::<f32>()?;
        assert!(y[0].iter().all(|v| *v != 0.0));
        assert_eq!(y[1], [0.0; 4]);
        assert_eq!(
            sdpa(
                &q,
                &k.narrow(1, 0, 0)?,
                &v.narrow(1, 0, 0)?,
                None,
                false,
                None,
                false
            )?
            .sum_all()?
            .to_scalar::<f32>()?,
            0.0
        );
        Ok(())
    }

    #[test]
    fn transposed_views_are_read_in_place() -> Result<()> {
        let heads_last = random(&[2, 9, 3, 8])?;
        let q = heads_last.transpose(1, 2)?;
        let y = sdpa(&q, &q, &q, None, true, None, false)?;
        let q = q.contiguous()?;
        assert!(close(&y, &sdpa(&q, &q, &q, None, true, None, false)?)?);
        Ok(())
    }

    #[test]
    fn heads_have_to_divide() -> Result<()> {
        let (q, k) = (random(&[1, 6, 2, 4])?, random(&[1, 4, 3, 4])?);
        assert!(sdpa(&q, &k, &k, None, false, None, true).is_err());
        assert!(sdpa(&q, &k, &k, None, false, None, false).is_err());
        Ok(())
    }
}
