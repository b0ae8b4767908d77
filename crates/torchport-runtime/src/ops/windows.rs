//! The windows of pooling operations: which inputs each output covers along every axis.

use super::conv::per_axis;
use candle::{bail, Result, Tensor};

/// What one output covers along one axis: every `step`-th of `start..end`, all inside the input.
pub(super) struct Window {
    pub start: usize,
    pub end: usize,
    pub step: usize,
    pub with_padding: usize,
}

/// The windows of three axes; for fewer, those in front have one window of one element.
pub(super) struct Windows {
    pub input: [usize; 3],
    pub axes: [Vec<Window>; 3],
    pub shape: Vec<usize>,
}

impl Windows {
    pub fn fixed(
        x: &Tensor,
        kernel: &[usize],
        stride: &[usize],
        padding: &[usize],
        dilation: &[usize],
        ceil_mode: bool,
    ) -> Result<Self> {
        let count = kernel.len();
        let stride = if stride.is_empty() { kernel } else { stride };
        let kernel = per_axis("pool", kernel, count, 1)?;
        let stride = per_axis("pool", stride, count, 1)?;
        let padding = per_axis("pool", padding, count, 0)?;
        let dilation = per_axis("pool", dilation, count, 1)?;
        Self::new(x, count, |axis, len| {
            let (kernel, padding) = (kernel[axis], padding[axis]);
            fixed_axis(
                len,
                kernel,
                stride[axis],
                padding,
                dilation[axis],
                ceil_mode,
            )
        })
    }

    pub fn adaptive(x: &Tensor, output: &[usize]) -> Result<Self> {
        let sizes = per_axis("adaptive pool", output, output.len(), 1)?;
        Self::new(x, output.len(), |axis, len| {
            Ok(adaptive_axis(len, sizes[axis]))
        })
    }

    fn new(
        x: &Tensor,
        count: usize,
        windows: impl Fn(usize, usize) -> Result<Vec<Window>>,
    ) -> Result<Self> {
        if !(1..=3).contains(&count) || !(count + 1..=count + 2).contains(&x.rank()) {
            bail!("no pooling of {count} axes of {:?}", x.shape());
        }
        let (outer, inner) = x.dims().split_at(x.rank() - count);
        if inner.contains(&0) {
            bail!("pool: {:?} has nothing to pool", x.shape());
        }
        let input = per_axis("pool", inner, count, 1)?;
        let axis = |axis| windows(axis, input[axis]);
        let axes = [axis(0)?, axis(1)?, axis(2)?];
        let inner = axes[3 - count..].iter().map(Vec::len);
        let shape = outer.iter().copied().chain(inner).collect();
        Ok(Self { input, axes, shape })
    }

    pub fn output_plane(&self) -> usize {
        self.axes.iter().map(Vec::len).product()
    }

    /// Runs `line(covered input lines, windows, output line)` for every line of one plane.
    pub fn for_lines<T>(
        &self,
        y: &mut [T],
        mut line: impl FnMut(&[usize], [&Window; 2], &mut [T]),
    ) {
        let [depth, height, width] = &self.axes;
        let mut lines = y.chunks_mut(width.len());
        let mut covered = vec![];
        for d in depth {
            for h in height {
                covered.clear();
                for d in (d.start..d.end).step_by(d.step) {
                    covered.extend(
                        (h.start..h.end)
                            .step_by(h.step)
                            .map(|h| d * self.input[1] + h),
                    );
                }
                if let Some(y) = lines.next() {
                    line(&covered, [d, h], y);
                }
            }
        }
    }
}

fn fixed_axis(
    len: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    ceil_mode: bool,
) -> Result<Vec<Window>> {
    if kernel == 0 || stride == 0 || dilation == 0 {
        bail!("pool: kernel, stride and dilation have to be positive");
    }
    let reach = dilation * (kernel - 1) + 1;
    if 2 * padding > reach {
        bail!("pool: padding {padding} is more than half of the kernel's reach of {reach}");
    }
    // With ceil_mode the last window may reach past the padding, but has to begin before it.
    let slack = if ceil_mode { stride - 1 } else { 0 };
    let Some(room) = (len + 2 * padding + slack).checked_sub(reach) else {
        bail!(
            "pool: kernel reaches over {reach}, the padded input has {}",
            len + 2 * padding
        );
    };
    let mut count = room / stride + 1;
    if ceil_mode && (count - 1) * stride >= len + padding {
        count -= 1;
    }
    let window = |index: usize| {
        let begin = index * stride;
        let skipped = padding.saturating_sub(begin).div_ceil(dilation) * dilation;
        let start = (begin + skipped - padding).min(len);
        let end = (begin + reach).saturating_sub(padding).clamp(start, len);
        let with_padding = (begin + reach).min(len + 2 * padding) - begin;
        Window {
            start,
            end,
            step: dilation,
            with_padding,
        }
    };
    Ok((0..count).map(window).collect())
}

fn adaptive_axis(len: usize, count: usize) -> Vec<Window> {
    let window = |index: usize| Window {
        start: index * len / count,
        end: ((index + 1) * len).div_ceil(count),
        step: 1,
        with_padding: 0,
    };
    (0..count).map(window).collect()
}
