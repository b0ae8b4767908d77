//! Convolution in one, two and three dimensions, with every option per axis.
//!
//! All ranks run as three dimensions, those in front with size 1. Depthwise convolutions have a
//! kernel of their own; the others are a matrix product with unfolded patches.

use super::depthwise::depthwise;
use super::gemm::{gemm, Mat, Sizes, Target};
use super::storage::{compute_dtype, parameter, tensor, with_real, with_values, Real, SharedMut};
use candle::{bail, Result, Tensor};
use rayon::prelude::*;

/// `torch.conv1d`, `conv2d` or `conv3d` by the rank of `w`, which has the shape
/// (out, in / groups, kernel…); `x` may lack the batch dim. Options hold one value per axis, or one.
pub fn conv(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    stride: &[usize],
    padding: &[usize],
    dilation: &[usize],
    groups: usize,
) -> Result<Tensor> {
    let axes = spatial_axes("conv", x, w)?;
    if x.rank() == axes + 1 {
        let y = conv(&x.unsqueeze(0)?, w, bias, stride, padding, dilation, groups)?;
        return y.squeeze(0);
    }
    let (channels, out_channels) = (x.dims()[1], w.dims()[0]);
    if groups == 0 || channels != w.dims()[1] * groups || out_channels % groups != 0 {
        bail!(
            "conv: input {:?} does not fit weight {:?} in {groups} groups",
            x.shape(),
            w.shape()
        );
    }
    if bias.is_some_and(|bias| bias.elem_count() != out_channels) {
        bail!("conv: bias does not have {out_channels} elements");
    }
    let mut shape = Geometry {
        batch: x.dims()[0],
        groups,
        in_channels: w.dims()[1],
        out_channels: out_channels / groups,
        input: per_axis("conv", &x.dims()[2..], axes, 1)?,
        kernel: per_axis("conv", &w.dims()[2..], axes, 1)?,
        output: [1; 3],
        stride: per_axis("conv", stride, axes, 1)?,
        padding: per_axis("conv", padding, axes, 0)?,
        dilation: per_axis("conv", dilation, axes, 1)?,
    };
    shape.output = shape.conv_output()?;
    if !x.device().is_cpu() {
        return on_device(x, w, bias, &shape, axes);
    }
    let dims = [&[shape.batch, out_channels], &shape.output[3 - axes..]].concat();
    with_real!(compute_dtype(x.dtype(), "conv")?, T => {
        let bias = parameter::<T>(bias)?;
        let y = with_values::<T, _>(x, "conv", |x| {
            with_values(w, "conv", |w| {
                Ok(if shape.in_channels == 1 && shape.groups > 1 {
                    depthwise(&shape, x, w, &bias)
                } else {
                    unfolded(&shape, x, w, &bias)
                })
            })
        })?;
        tensor(y, &dims, x.dtype())
    })
}

/// The sizes of one convolution; channels are those of one group.
pub(super) struct Geometry {
    pub batch: usize,
    pub groups: usize,
    pub in_channels: usize,
    pub out_channels: usize,
    pub input: [usize; 3],
    pub kernel: [usize; 3],
    pub output: [usize; 3],
    pub stride: [usize; 3],
    pub padding: [usize; 3],
    pub dilation: [usize; 3],
}

impl Geometry {
    fn conv_output(&self) -> Result<[usize; 3]> {
        let mut output = [0; 3];
        for (axis, output) in output.iter_mut().enumerate() {
            let reach = self.dilation[axis] * (self.kernel[axis].max(1) - 1) + 1;
            let padded = self.input[axis] + 2 * self.padding[axis];
            if self.stride[axis] == 0 || self.dilation[axis] == 0 || self.kernel[axis] == 0 {
                bail!("conv: stride, dilation and kernel have to be positive");
            }
            if reach > padded {
                bail!("conv: kernel reaches over {reach}, the padded input has {padded}");
            }
            *output = (padded - reach) / self.stride[axis] + 1;
        }
        Ok(output)
    }

    pub fn input_plane(&self) -> usize {
        self.input.iter().product()
    }
    pub fn output_plane(&self) -> usize {
        self.output.iter().product()
    }
    pub fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// The positions `p` in `0..len` for which `p * stride + tap * dilation - padding` lies in
    /// `0..limit`.
    pub fn inside(&self, axis: usize, tap: usize, len: usize, limit: usize) -> (usize, usize) {
        let (shift, padding) = (tap * self.dilation[axis], self.padding[axis]);
        let first = padding.saturating_sub(shift).div_ceil(self.stride[axis]);
        let end = (limit + padding)
            .saturating_sub(shift)
            .div_ceil(self.stride[axis]);
        let end = end.min(len);
        (first.min(end), end)
    }

    /// Whether each output needs exactly the input at its own position.
    fn is_pointwise(&self) -> bool {
        self.kernel == [1; 3] && self.stride == [1; 3] && self.padding == [0; 3]
    }
}

/// How many spatial axes `w` has, after checking that `x` fits.
pub(super) fn spatial_axes(op: &str, x: &Tensor, w: &Tensor) -> Result<usize> {
    let axes = w.rank().saturating_sub(2);
    if !(1..=3).contains(&axes) || !(axes + 1..=axes + 2).contains(&x.rank()) {
        bail!(
            "{op}: no convolution of {:?} with {:?}",
            x.shape(),
            w.shape()
        );
    }
    Ok(axes)
}

/// Spreads one value, or one per axis, to three axes, with `fill` in front.
pub(super) fn per_axis(op: &str, values: &[usize], axes: usize, fill: usize) -> Result<[usize; 3]> {
    let mut spread = [fill; 3];
    match values {
        [value] => spread[3 - axes..].fill(*value),
        values if values.len() == axes => spread[3 - axes..].copy_from_slice(values),
        _ => bail!("{op}: {values:?} does not have one value for each of {axes} axes"),
    }
    Ok(spread)
}

/// About how many unfolded values are worked on at once: what fits the second-level cache.
const BLOCK: usize = 1 << 17;

/// Unfolds the patches of a range of output positions into the columns of a matrix and multiplies
/// the weights with it.
fn unfolded<T: Real>(shape: &Geometry, x: &[T], w: &[T], bias: &[T]) -> Vec<T> {
    let (plane, inner) = (shape.output_plane(), shape.in_channels * shape.taps());
    let mut y = start_values(
        shape.batch * shape.groups,
        shape.groups,
        shape.out_channels,
        plane,
        bias,
    );
    let threads = rayon::current_num_threads();
    let images = shape.batch * shape.groups;
    if y.is_empty() {
        return y;
    }
    let widest = (BLOCK / inner.max(1)).max(64).next_multiple_of(16);
    let parts = plane
        .div_ceil(widest)
        .max(threads.div_ceil(images))
        .min(plane.div_ceil(64));
    let width = plane.div_ceil(parts);
    let values = SharedMut::new(&mut y);
    let block = |columns: &mut Vec<T>, index: usize, parallel: bool| {
        let (image, start) = (index / parts, index % parts * width);
        let group = image % shape.groups;
        let width = width.min(plane.saturating_sub(start));
        if width == 0 {
            return;
        }
        let x = &x[image * shape.in_channels * shape.input_plane()..];
        let target = Target {
            values,
            start: image * shape.out_channels * plane + start,
            row_stride: plane,
            accumulate: true,
        };
        let w = Mat::new(&w[group * shape.out_channels * inner..], inner, 1);
        let sizes = Sizes {
            m: shape.out_channels,
            n: width,
            k: inner,
        };
        let patches = if shape.is_pointwise() {
            Mat::new(&x[start..], plane, 1)
        } else {
            columns.resize(inner * width, T::ZERO);
            unfold(shape, x, start, width, columns);
            Mat::new(columns, width, 1)
        };
        // SAFETY: blocks write to disjoint positions of `y`.
        unsafe { gemm(sizes, target, w, patches, parallel) };
    };
    if images * parts >= threads {
        (0..images * parts)
            .into_par_iter()
            .for_each_init(Vec::new, |columns, index| block(columns, index, false));
    } else {
        let mut columns = Vec::new();
        (0..images * parts).for_each(|index| block(&mut columns, index, true));
    }
    y
}

/// The output before any product is added to it: the bias of each channel, or zeros.
pub(super) fn start_values<T: Real>(
    images: usize,
    groups: usize,
    channels: usize,
    plane: usize,
    bias: &[T],
) -> Vec<T> {
    if bias.is_empty() {
        return vec![T::ZERO; images * channels * plane];
    }
    let mut values = Vec::with_capacity(images * channels * plane);
    for channel in 0..images * channels {
        values.resize(values.len() + plane, bias[channel % (groups * channels)]);
    }
    values
}

/// Writes row (channel, tap) of the patches for output positions `start..start + width`.
fn unfold<T: Real>(shape: &Geometry, x: &[T], start: usize, width: usize, columns: &mut [T]) {
    let [_, kernel_h, kernel_w] = shape.kernel;
    let taps = shape.taps();
    for (row, out) in columns.chunks_exact_mut(width).enumerate() {
        let (channel, tap) = (row / taps, row % taps);
        let tap = [
            tap / (kernel_h * kernel_w),
            tap / kernel_w % kernel_h,
            tap % kernel_w,
        ];
        let x = &x[channel * shape.input_plane()..][..shape.input_plane()];
        unfold_row(shape, x, tap, start, out);
    }
}

fn unfold_row<T: Real>(shape: &Geometry, x: &[T], tap: [usize; 3], start: usize, out: &mut [T]) {
    let [_, out_h, out_w] = shape.output;
    let (first, end) = shape.inside(2, tap[2], out_w, shape.input[2]);
    let (stride, shift) = (shape.stride[2], tap[2] * shape.dilation[2]);
    let source = |axis: usize, position: usize| {
        let padded = position * shape.stride[axis] + tap[axis] * shape.dilation[axis];
        padded
            .checked_sub(shape.padding[axis])
            .filter(|&i| i < shape.input[axis])
    };
    let mut written = 0;
    while written < out.len() {
        let position = start + written;
        let (line, from) = (position / out_w, position % out_w);
        let to = out_w.min(from + out.len() - written);
        let out = &mut out[written..written + to - from];
        written += to - from;
        let (Some(d), Some(h)) = (source(0, line / out_h), source(1, line % out_h)) else {
            out.fill(T::ZERO);
            continue;
        };
        let x = &x[(d * shape.input[1] + h) * shape.input[2]..][..shape.input[2]];
        let (lo, hi) = (first.clamp(from, to), end.clamp(from, to));
        out[..lo - from].fill(T::ZERO);
        out[hi - from..].fill(T::ZERO);
        if lo < hi {
            let x = &x[lo * stride + shift - shape.padding[2]..];
            let out = &mut out[lo - from..hi - from];
            if stride == 1 {
                out.copy_from_slice(&x[..out.len()]);
            } else {
                out.iter_mut()
                    .zip(x.iter().step_by(stride))
                    .for_each(|(out, x)| *out = *x);
            }
        }
    }
}

/// Candle's own convolution, for devices without kernels here.
fn on_device(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    shape: &Geometry,
    axes: usize,
) -> Result<Tensor> {
    let same = |values: &[usize; 3]| values[3 - axes..].windows(2).all(|pair| pair[0] == pair[1]);
    if axes == 3 || !same(&shape.stride) || !same(&shape.padding) || !same(&shape.dilation) {
        bail!("conv3d and options that differ between axes are only implemented on the CPU");
    }
    let (padding, stride, dilation) = (shape.padding[2], shape.stride[2], shape.dilation[2]);
    let y = match axes {
        1 => x.conv1d(w, padding, stride, dilation, shape.groups)?,
        _ => x.conv2d(w, padding, stride, dilation, shape.groups)?,
    };
    match bias {
        Some(bias) => {
            let mut dims = vec![1; axes + 2];
            dims[1] = bias.elem_count();
            y.broadcast_add(&bias.reshape(dims)?)
        }
        None => Ok(y),
    }
}
