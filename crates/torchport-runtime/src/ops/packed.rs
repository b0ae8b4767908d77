//! Batches whose rows have different lengths, steps first.

use super::{full, to_dtype};
use candle::{bail, DType, Device, Result, Tensor};

fn lengths_of(lengths: &Tensor) -> Result<Vec<i64>> {
    to_dtype(&lengths.flatten_all()?, DType::I64)?.to_vec1()
}

/// For each of `steps` steps and each row whether the row is that long: (steps, batch) of 0 and 1.
pub fn is_inside(steps: usize, lengths: &Tensor) -> Result<Tensor> {
    let lengths = lengths_of(lengths)?;
    if let Some(wrong) = lengths.iter().find(|&&n| n < 1 || n > steps as i64) {
        bail!("a row of {wrong} steps in a batch of {steps}")
    }
    let batch = lengths.len();
    let inside =
        (0..steps as i64).flat_map(|step| lengths.iter().map(move |&n| u8::from(step < n)));
    Tensor::from_vec(inside.collect(), (steps, batch), &Device::Cpu)
}

/// As many steps as the longest row has, with `value` behind the end of each row: the padded batch that
/// `torch.nn.utils.rnn.pad_packed_sequence` gives.
pub fn unpacked(padded: &Tensor, lengths: &Tensor, value: f64) -> Result<Tensor> {
    let mut inside = is_inside(padded.dim(0)?, lengths)?.to_device(padded.device())?;
    for axis in 2..padded.rank() {
        inside = inside.unsqueeze(axis)?;
    }
    let fill = full(&[], value, padded.dtype(), padded.device())?;
    let longest = lengths_of(lengths)?.into_iter().max().unwrap_or(0) as usize;
    inside
        .broadcast_as(padded.shape())?
        .where_cond(padded, &fill.broadcast_as(padded.shape())?)?
        .narrow(0, 0, longest)
}
