//! Products in which each group of rows has a matrix of its own, as in mixtures of experts.

use super::kernel::with_slice;
use super::{full, matmul, to_dtype};
use candle::{bail, DType, Result, Tensor};

/// Rows of `x` up to the first of `ends` times the first matrix of `weight`, those up to the second
/// times the second, and so on. A group may be empty; rows behind the last group become zeros.
pub fn grouped_mm(x: &Tensor, weight: &Tensor, ends: &Tensor) -> Result<Tensor> {
    let (rows, _) = x.dims2()?;
    let (experts, _, width) = weight.dims3()?;
    let ends = with_slice(&to_dtype(ends, DType::I64)?, |ends: &[i64]| {
        Ok(ends.to_vec())
    })?;
    if ends.len() != experts {
        bail!("grouped_mm: {} groups for {experts} matrices", ends.len())
    }
    let mut parts = vec![];
    let mut start = 0;
    for (expert, &end) in ends.iter().enumerate() {
        let end = match usize::try_from(end) {
            Ok(end) if end >= start && end <= rows => end,
            _ => bail!("grouped_mm: a group of rows {start} to {end} of {rows}"),
        };
        if end > start {
            parts.push(matmul(
                &x.narrow(0, start, end - start)?,
                &weight.get(expert)?,
            )?);
        }
        start = end;
    }
    if start < rows {
        parts.push(full(&[rows - start, width], 0.0, x.dtype(), x.device())?);
    }
    match parts.len() {
        0 => full(&[0, width], 0.0, x.dtype(), x.device()),
        _ => Tensor::cat(&parts, 0),
    }
}
