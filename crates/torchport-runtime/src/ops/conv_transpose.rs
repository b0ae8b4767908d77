//! Transposed convolution in one, two and three dimensions: a matrix product spreads each input
//! over the kernel's taps, which are then added up where they overlap.

use super::conv::{per_axis, spatial_axes, Geometry};
use super::gemm::{gemm, Sizes};
use super::matrix::{Mat, Target};
use super::real::{for_real, parameter, real_dtype, tensor_like, with_values, Real, SharedMut};
use super::unfold::start_values;
use candle::{bail, Result, Tensor};
use rayon::prelude::*;

/// `torch.conv_transpose1d`, `2d` or `3d` by the rank of `w`, which has the shape
/// (in, out / groups, kernel…); `x` may lack the batch dim. Options hold one value per axis, or one.
#[allow(clippy::too_many_arguments)]
pub fn conv_transpose(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    stride: &[usize],
    padding: &[usize],
    output_padding: &[usize],
    groups: usize,
    dilation: &[usize],
) -> Result<Tensor> {
    const OP: &str = "conv_transpose";
    let axes = spatial_axes(OP, x, w)?;
    if x.rank() == axes + 1 {
        let x = x.unsqueeze(0)?;
        let y = conv_transpose(
            &x,
            w,
            bias,
            stride,
            padding,
            output_padding,
            groups,
            dilation,
        )?;
        return y.squeeze(0);
    }
    let channels = x.dims()[1];
    if groups == 0 || channels != w.dims()[0] || !channels.is_multiple_of(groups) {
        bail!(
            "{OP}: input {:?} does not fit weight {:?} in {groups} groups",
            x.shape(),
            w.shape()
        );
    }
    if bias.is_some_and(|bias| bias.elem_count() != w.dims()[1] * groups) {
        bail!("{OP}: bias does not have {} elements", w.dims()[1] * groups);
    }
    let mut shape = Geometry {
        batch: x.dims()[0],
        groups,
        in_channels: channels / groups,
        out_channels: w.dims()[1],
        input: per_axis(OP, &x.dims()[2..], axes, 1)?,
        kernel: per_axis(OP, &w.dims()[2..], axes, 1)?,
        output: [1; 3],
        stride: per_axis(OP, stride, axes, 1)?,
        padding: per_axis(OP, padding, axes, 0)?,
        dilation: per_axis(OP, dilation, axes, 1)?,
    };
    shape.output = output_sizes(&shape, per_axis(OP, output_padding, axes, 0)?)?;
    let dims = [
        &[shape.batch, shape.out_channels * groups],
        &shape.output[3 - axes..],
    ]
    .concat();
    for_real!(real_dtype(OP, x.dtype())?, T => {
        let bias = parameter::<T>(bias)?;
        let y = with_values::<T, _>(x, |x| {
            with_values(w, |w| Ok(spread(&shape, x, w, &bias)))
        })?;
        tensor_like(x, y, &dims)
    })
}

fn output_sizes(shape: &Geometry, extra: [usize; 3]) -> Result<[usize; 3]> {
    let mut output = [0; 3];
    for (axis, output) in output.iter_mut().enumerate() {
        let (stride, dilation) = (shape.stride[axis], shape.dilation[axis]);
        if stride == 0 || dilation == 0 || shape.kernel[axis] == 0 || shape.input[axis] == 0 {
            bail!("conv_transpose: input, kernel, stride and dilation have to be positive");
        }
        if extra[axis] > 0 && extra[axis] >= stride.max(dilation) {
            bail!("conv_transpose: output padding has to be smaller than stride or dilation");
        }
        let full = (shape.input[axis] - 1) * stride
            + dilation * (shape.kernel[axis] - 1)
            + extra[axis]
            + 1;
        match full.checked_sub(2 * shape.padding[axis]) {
            Some(size) if size > 0 => *output = size,
            _ => bail!(
                "conv_transpose: padding {} leaves nothing of {full}",
                shape.padding[axis]
            ),
        }
    }
    Ok(output)
}

/// About how many products are worked on at once: what fits the second-level cache.
const BLOCK: usize = 1 << 17;

fn spread<T: Real>(shape: &Geometry, x: &[T], w: &[T], bias: &[T]) -> Vec<T> {
    let (plane, taps, inputs) = (shape.output_plane(), shape.taps(), shape.input_plane());
    let images = shape.batch * shape.groups;
    let mut y = start_values(images, shape.groups, shape.out_channels, plane, bias);
    if y.is_empty() {
        return y;
    }
    // Channels of one image, as many at a time as the cache holds and all threads get some of.
    let fair = (images * shape.out_channels).div_ceil(rayon::current_num_threads());
    let mut block = (BLOCK / (taps * inputs))
        .clamp(1, fair.max(1))
        .min(shape.out_channels);
    while !shape.out_channels.is_multiple_of(block) {
        block -= 1;
    }
    let blocks = shape.out_channels / block;
    let row = shape.out_channels * taps;
    y.par_chunks_mut(block * plane).enumerate().for_each_init(
        || vec![T::ZERO; block * taps * inputs],
        |products, (index, y)| {
            let (image, first) = (index / blocks, index % blocks * block);
            let group = image % shape.groups;
            let x = &x[image * shape.in_channels * inputs..];
            let w = &w[group * shape.in_channels * row + first * taps..];
            let sizes = Sizes {
                m: block * taps,
                n: inputs,
                k: shape.in_channels,
            };
            let target = Target::new(SharedMut::new(products), 0, inputs, false);
            // SAFETY: `products` belongs to this thread and has m rows of n elements.
            unsafe {
                gemm(
                    sizes,
                    target,
                    Mat::new(w, 1, row),
                    Mat::new(x, inputs, 1),
                    false,
                )
            };
            for (y, products) in y.chunks_mut(plane).zip(products.chunks(taps * inputs)) {
                add_taps(shape, products, y);
            }
        },
    );
    y
}

/// Adds the products of every tap to the outputs they belong to.
fn add_taps<T: Real>(shape: &Geometry, products: &[T], y: &mut [T]) {
    let [kernel_d, kernel_h, kernel_w] = shape.kernel;
    let mut planes = products.chunks_exact(shape.input_plane());
    for d in 0..kernel_d {
        for h in 0..kernel_h {
            for w in 0..kernel_w {
                if let Some(products) = planes.next() {
                    add_tap(shape, [d, h, w], products, y);
                }
            }
        }
    }
}

fn add_tap<T: Real>(shape: &Geometry, tap: [usize; 3], products: &[T], y: &mut [T]) {
    let range = |axis: usize| shape.inside(axis, tap[axis], shape.input[axis], shape.output[axis]);
    let goal = |axis: usize, position: usize| {
        position * shape.stride[axis] + tap[axis] * shape.dilation[axis] - shape.padding[axis]
    };
    let [_, input_h, input_w] = shape.input;
    let columns = range(2);
    if columns.is_empty() {
        return;
    }
    for d in range(0) {
        for h in range(1) {
            let products = &products[(d * input_h + h) * input_w..][columns.clone()];
            let line = (goal(0, d) * shape.output[1] + goal(1, h)) * shape.output[2];
            let y = &mut y[line + goal(2, columns.start)..];
            match shape.stride[2] {
                1 => y.iter_mut().zip(products).for_each(|(y, p)| *y += *p),
                stride => y
                    .iter_mut()
                    .step_by(stride)
                    .zip(products)
                    .for_each(|(y, p)| *y += *p),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::conv;
    use super::*;
    use candle::{DType, Device};

    fn random(shape: &[usize]) -> Result<Tensor> {
        Tensor::randn(0f32, 1.0, shape, &Device::Cpu)?.to_dtype(DType::F64)
    }

    /// ⟨conv(x), y⟩ = ⟨x, conv_transpose(y)⟩ defines the transposed operation.
    #[test]
    fn is_the_adjoint_of_conv() -> Result<()> {
        let (x, w) = (random(&[2, 4, 9, 11])?, random(&[6, 2, 3, 2])?);
        let (stride, padding, dilation) = (&[2, 3], &[1, 0], &[1, 2]);
        let forward = conv(&x, &w, None, stride, padding, dilation, 2)?;
        let y = random(forward.dims())?;
        let back = conv_transpose(&y, &w, None, stride, padding, &[0, 2], 2, dilation)?;
        assert_eq!(back.dims(), [2, 4, 9, 11]);
        let inner = |a: &Tensor, b: &Tensor| (a * b)?.sum_all()?.to_scalar::<f64>();
        assert!((inner(&forward, &y)? - inner(&x, &back)?).abs() < 1e-10);
        Ok(())
    }

    #[test]
    fn output_padding_has_to_be_smaller_than_the_stride() -> Result<()> {
        let (x, w) = (random(&[1, 1, 4])?, random(&[1, 1, 3])?);
        assert!(conv_transpose(&x, &w, None, &[2], &[0], &[2], 1, &[1]).is_err());
        Ok(())
    }
}
