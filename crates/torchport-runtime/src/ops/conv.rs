//! Convolution in one, two and three dimensions, with every option per axis.
//!
//! All ranks run as three dimensions, those in front with size 1. Convolutions with many groups have
//! a kernel of their own; the others are a matrix product with unfolded patches.

use super::direct::{direct, suits};
use super::real::{for_real, parameter, real_dtype, tensor_like, with_values};
use super::unfold::unfolded;
use candle::{bail, Result, Tensor};
use std::ops::Range;

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
    for_real!(real_dtype("conv", x.dtype())?, T => {
        let bias = parameter::<T>(bias)?;
        let y = with_values::<T, _>(x, |x| {
            with_values(w, |w| {
                Ok(if suits(&shape) {
                    direct(&shape, x, w, &bias)
                } else {
                    unfolded(&shape, x, w, &bias)
                })
            })
        })?;
        tensor_like(x, y, &dims)
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
            let sizes = [self.input, self.kernel, self.stride, self.dilation];
            if sizes.iter().any(|sizes| sizes[axis] == 0) {
                bail!("conv: input, kernel, stride and dilation have to be positive");
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
    pub fn inside(&self, axis: usize, tap: usize, len: usize, limit: usize) -> Range<usize> {
        let (shift, padding) = (tap * self.dilation[axis], self.padding[axis]);
        let first = padding.saturating_sub(shift).div_ceil(self.stride[axis]);
        let end = (limit + padding)
            .saturating_sub(shift)
            .div_ceil(self.stride[axis]);
        let end = end.min(len);
        first.min(end)..end
    }

    /// Whether each output needs exactly the input at its own position.
    pub fn is_pointwise(&self) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use candle::{DType, Device};

    fn random(shape: &[usize]) -> Result<Tensor> {
        Tensor::randn(0f32, 1.0, shape, &Device::Cpu)?.to_dtype(DType::F64)
    }

    /// Sums up one output after the other, straight from the definition, for rank 4.
    fn naive(
        x: &Tensor,
        w: &Tensor,
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        groups: usize,
    ) -> Result<Vec<f64>> {
        let (batch, _, height, width) = x.dims4()?;
        let (out, channels, kernel_h, kernel_w) = w.dims4()?;
        let size = |len: usize, kernel: usize, axis: usize| {
            (len + 2 * padding[axis] - dilation[axis] * (kernel - 1) - 1) / stride[axis] + 1
        };
        let (out_h, out_w) = (size(height, kernel_h, 0), size(width, kernel_w, 1));
        let x: Vec<f64> = x.flatten_all()?.to_vec1()?;
        let w: Vec<f64> = w.flatten_all()?.to_vec1()?;
        let mut y = vec![];
        for index in 0..batch * out * out_h * out_w {
            let (b, o) = (index / (out * out_h * out_w), index / (out_h * out_w) % out);
            let (i, j) = (index / out_w % out_h, index % out_w);
            let first = o / (out / groups) * channels;
            let mut sum = 0.0;
            for tap in 0..channels * kernel_h * kernel_w {
                let (c, u, v) = (
                    tap / (kernel_h * kernel_w),
                    tap / kernel_w % kernel_h,
                    tap % kernel_w,
                );
                let (h, l) = (
                    i * stride[0] + u * dilation[0],
                    j * stride[1] + v * dilation[1],
                );
                if (padding[0]..height + padding[0]).contains(&h)
                    && (padding[1]..width + padding[1]).contains(&l)
                {
                    let plane = (b * channels * groups + first + c) * height;
                    sum += w[o * channels * kernel_h * kernel_w + tap]
                        * x[(plane + h - padding[0]) * width + l - padding[1]];
                }
            }
            y.push(sum);
        }
        Ok(y)
    }

    #[test]
    fn every_option_follows_the_definition() -> Result<()> {
        let cases = [
            ([2, 4, 9, 11], [6, 4, 3, 3], [1, 1], [1, 1], [1, 1], 1),
            ([2, 4, 9, 11], [6, 2, 3, 5], [2, 1], [1, 3], [1, 2], 2),
            ([1, 6, 10, 40], [6, 1, 3, 3], [1, 2], [1, 0], [2, 1], 6),
            ([1, 3, 10, 10], [9, 1, 4, 2], [3, 3], [2, 5], [1, 3], 3),
            ([2, 8, 5, 5], [4, 8, 1, 1], [1, 1], [0, 0], [1, 1], 1),
            ([1, 8, 5, 5], [4, 4, 1, 1], [2, 2], [1, 0], [1, 1], 2),
        ];
        for (x, w, stride, padding, dilation, groups) in cases {
            let (x, w) = (random(&x)?, random(&w)?);
            let y = conv(&x, &w, None, &stride, &padding, &dilation, groups)?;
            let expected = naive(&x, &w, stride, padding, dilation, groups)?;
            for (value, expected) in y.flatten_all()?.to_vec1::<f64>()?.iter().zip(expected) {
                assert!(
                    (value - expected).abs() < 1e-12,
                    "{:?} with {:?}",
                    x.shape(),
                    w.shape()
                );
            }
        }
        Ok(())
    }

    #[test]
    fn a_volume_of_depth_one_is_an_image() -> Result<()> {
        let (x, w, bias) = (
            random(&[2, 3, 7, 8])?,
            random(&[4, 3, 3, 2])?,
            random(&[4])?,
        );
        let flat = conv(&x, &w, Some(&bias), &[2, 1], &[1, 1], &[1, 2], 1)?;
        let (x, w) = (x.unsqueeze(2)?, w.unsqueeze(2)?);
        let deep = conv(&x, &w, Some(&bias), &[1, 2, 1], &[0, 1, 1], &[1, 1, 2], 1)?;
        assert_eq!(
            deep.squeeze(2)?.flatten_all()?.to_vec1::<f64>()?,
            flat.flatten_all()?.to_vec1::<f64>()?
        );
        Ok(())
    }

    #[test]
    fn unbatched_and_empty_inputs() -> Result<()> {
        let w = random(&[4, 3, 2])?;
        assert_eq!(
            conv(&random(&[3, 9])?, &w, None, &[1], &[0], &[1], 1)?.dims(),
            [4, 8]
        );
        let none = Tensor::zeros((0, 3, 9), DType::F64, &Device::Cpu)?;
        assert_eq!(
            conv(&none, &w, None, &[1], &[0], &[1], 1)?.dims(),
            [0, 4, 8]
        );
        assert!(conv(&random(&[3, 1])?, &w, None, &[1], &[0], &[1], 1).is_err());
        Ok(())
    }
}
