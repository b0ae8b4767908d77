//! Padding and cropping as in `torch.nn.functional.pad`, for every dtype.

use super::kernel::for_dtype;
use super::real::{tensor_like, with_values};
use candle::{bail, Result, Tensor, WithDType};
use rayon::prelude::*;

/// What stands outside of a tensor's borders.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PadMode {
    #[default]
    Zeros,
    Constant(f64),
    Reflect,
    Replicate,
    Circular,
}

/// Pads with `padding` in torch's order: before and after the last dim, then the one before it…
/// Negative values crop.
pub fn pad(x: &Tensor, padding: &[i64], mode: PadMode) -> Result<Tensor> {
    if !padding.len().is_multiple_of(2) || padding.len() / 2 > x.rank() {
        bail!("pad: {padding:?} does not fit {:?}", x.shape());
    }
    let mut sources: Vec<Vec<usize>> = x.dims().iter().map(|&dim| (0..dim).collect()).collect();
    for (pair, sources) in padding.chunks(2).zip(sources.iter_mut().rev()) {
        *sources = padded_axis(sources.len(), pair[0], pair[1], mode)?;
    }
    let fill = match mode {
        PadMode::Constant(value) => value,
        _ => 0.0,
    };
    gather_axes(x, &sources, fill)
}

/// Stands for "the fill value" among the source indices of an axis.
pub(super) const OUTSIDE: usize = usize::MAX;

/// Picks `sources[axis]` along every axis of `x`.
pub(super) fn gather_axes(x: &Tensor, sources: &[Vec<usize>], fill: f64) -> Result<Tensor> {
    let shape: Vec<usize> = sources.iter().map(Vec::len).collect();
    for_dtype!("pad", x.dtype(), T => {
        let y = with_values::<T, _>(x, |values| {
            Ok(gather(values, x.dims(), sources, <T as WithDType>::from_f64(fill)))
        })?;
        tensor_like(x, y, &shape)
    })
}

fn padded_axis(len: usize, before: i64, after: i64, mode: PadMode) -> Result<Vec<usize>> {
    let size = len as i64;
    let total = size + before + after;
    let may_be_empty = matches!(
        mode,
        PadMode::Zeros | PadMode::Constant(_) | PadMode::Circular
    );
    if total < 0 || (total == 0 && !may_be_empty) {
        bail!("pad: nothing is left of {len} after {before} and {after}");
    }
    let reach = before.max(after);
    match mode {
        PadMode::Reflect if reach > 0 && reach >= size => {
            bail!("pad: cannot reflect {reach} elements of {len}")
        }
        PadMode::Circular if reach > size => bail!("pad: cannot wrap {reach} elements of {len}"),
        PadMode::Replicate if reach > 0 && len == 0 => bail!("pad: nothing to replicate"),
        _ => {}
    }
    // A wrapped axis repeats what is left of it, the other modes look at the whole one.
    let (first, kept) = match mode {
        PadMode::Circular => ((-before).max(0), size + before.min(0) + after.min(0)),
        _ => (0, size),
    };
    if mode == PadMode::Circular && reach > 0 && kept <= 0 {
        bail!("pad: nothing is left of {len} to wrap around");
    }
    let source = |position: i64| match mode {
        _ if (0..size).contains(&position) && mode != PadMode::Circular => position as usize,
        PadMode::Zeros | PadMode::Constant(_) => OUTSIDE,
        PadMode::Reflect if position < 0 => (-position) as usize,
        PadMode::Reflect => (2 * (size - 1) - position) as usize,
        PadMode::Replicate => position.clamp(0, size - 1) as usize,
        PadMode::Circular => ((position - first).rem_euclid(kept) + first) as usize,
    };
    Ok((-before..total - before).map(source).collect())
}

fn gather<T: WithDType>(x: &[T], dims: &[usize], sources: &[Vec<usize>], fill: T) -> Vec<T> {
    let Some((last, outer)) = sources.split_last() else {
        return x.to_vec();
    };
    let mut strides = vec![1; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis] * dims[axis];
    }
    let count: usize = sources.iter().map(Vec::len).product();
    let mut y = vec![fill; count];
    if count == 0 {
        return y;
    }
    let runs = runs(last);
    let lines = (4096 / last.len()).max(1);
    y.par_chunks_mut(lines * last.len())
        .enumerate()
        .for_each(|(block, y)| {
            let mut previous = None;
            for line in 0..y.len() / last.len() {
                let (done, y) = y.split_at_mut(line * last.len());
                let y = &mut y[..last.len()];
                let start = line_start(block * lines + line, outer, &strides);
                match start {
                    None => {}
                    // A line that repeats the one before it is cheaper to copy.
                    Some(_) if start == previous => {
                        y.copy_from_slice(&done[done.len() - y.len()..])
                    }
                    Some(start) => copy_line(&x[start..], last, &runs, y),
                }
                previous = start;
            }
        });
    y
}

/// Where the line numbered `line` of the output starts in the input, unless it lies outside.
fn line_start(mut line: usize, sources: &[Vec<usize>], strides: &[usize]) -> Option<usize> {
    let mut start = 0;
    for (sources, stride) in sources.iter().zip(strides).rev() {
        let source = sources[line % sources.len()];
        line /= sources.len();
        if source == OUTSIDE {
            return None;
        }
        start += source * stride;
    }
    Some(start)
}

/// Neighbours in the output that are neighbours in the input.
struct Run {
    output: usize,
    input: usize,
    len: usize,
}

fn runs(sources: &[usize]) -> Vec<Run> {
    let mut runs: Vec<Run> = vec![];
    for (output, &input) in sources
        .iter()
        .enumerate()
        .filter(|(_, &input)| input != OUTSIDE)
    {
        match runs.last_mut() {
            Some(run) if run.output + run.len == output && run.input + run.len == input => {
                run.len += 1;
            }
            _ => runs.push(Run {
                output,
                input,
                len: 1,
            }),
        }
    }
    runs
}

fn copy_line<T: Copy>(x: &[T], sources: &[usize], runs: &[Run], y: &mut [T]) {
    // With short runs it is faster to go element by element.
    if 4 * runs.len() > sources.len() {
        let pairs = y.iter_mut().zip(sources);
        pairs
            .filter(|(_, &i)| i != OUTSIDE)
            .for_each(|(y, &i)| *y = x[i]);
        return;
    }
    for run in runs {
        y[run.output..][..run.len].copy_from_slice(&x[run.input..][..run.len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle::Device;

    fn padded(padding: &[i64], mode: PadMode) -> Result<Vec<i64>> {
        let x = Tensor::arange(1i64, 6, &Device::Cpu)?;
        pad(&x, padding, mode)?.to_vec1()
    }

    #[test]
    fn modes_fill_the_borders_as_torch_does() -> Result<()> {
        assert_eq!(padded(&[2, 1], PadMode::Zeros)?, [0, 0, 1, 2, 3, 4, 5, 0]);
        assert_eq!(padded(&[1, 0], PadMode::Constant(7.0))?, [7, 1, 2, 3, 4, 5]);
        assert_eq!(
            padded(&[2, 3], PadMode::Reflect)?,
            [3, 2, 1, 2, 3, 4, 5, 4, 3, 2]
        );
        assert_eq!(
            padded(&[2, 1], PadMode::Replicate)?,
            [1, 1, 1, 2, 3, 4, 5, 5]
        );
        assert_eq!(
            padded(&[2, 1], PadMode::Circular)?,
            [4, 5, 1, 2, 3, 4, 5, 1]
        );
        Ok(())
    }

    #[test]
    fn negative_padding_crops() -> Result<()> {
        assert_eq!(padded(&[-1, -2], PadMode::Zeros)?, [2, 3]);
        assert_eq!(padded(&[-2, 2], PadMode::Reflect)?, [3, 4, 5, 4, 3]);
        assert_eq!(padded(&[-2, 2], PadMode::Circular)?, [3, 4, 5, 3, 4]);
        assert!(padded(&[-3, -3], PadMode::Zeros).is_err());
        Ok(())
    }

    #[test]
    fn the_first_pair_belongs_to_the_last_dim() -> Result<()> {
        let x = Tensor::new(&[[1u8, 2], [3, 4]], &Device::Cpu)?;
        let y = pad(&x, &[1, 0, 0, 1], PadMode::Zeros)?;
        assert_eq!(y.to_vec2::<u8>()?, [[0, 1, 2], [0, 3, 4], [0, 0, 0]]);
        Ok(())
    }

    #[test]
    fn reflecting_more_than_there_is_fails() {
        assert!(padded(&[5, 0], PadMode::Reflect).is_err());
        assert!(padded(&[6, 0], PadMode::Circular).is_err());
    }
}
