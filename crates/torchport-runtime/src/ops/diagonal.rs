//! Diagonals of the matrices in a tensor.

use super::strided::{copy_strided, signed_strides};
use candle::{bail, Result, Tensor};

/// `torch.diagonal(x, offset, first, second)`: the diagonal becomes the last dimension.
pub fn diagonal(x: &Tensor, offset: i64, first: usize, second: usize) -> Result<Tensor> {
    if first == second {
        bail!("diagonal: both dimensions are {first}")
    }
    let (rows, columns) = (x.dim(first)?, x.dim(second)?);
    let strides = signed_strides(x);
    let away = offset.unsigned_abs() as usize;
    let (len, shift) = match offset {
        0.. => (
            rows.min(columns.saturating_sub(away)),
            away as isize * strides[second],
        ),
        _ => (
            columns.min(rows.saturating_sub(away)),
            away as isize * strides[first],
        ),
    };
    let kept = (0..x.rank()).filter(|d| *d != first && *d != second);
    let mut dims = kept.clone().map(|d| x.dims()[d]).collect::<Vec<_>>();
    let mut steps = kept.map(|d| strides[d]).collect::<Vec<_>>();
    dims.push(len);
    steps.push(strides[first] + strides[second]);
    let shift = if len == 0 { 0 } else { shift };
    copy_strided("diagonal", x, &dims, &steps, shift)
}
