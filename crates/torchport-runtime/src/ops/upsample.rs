//! Resizing by interpolation as in `torch.nn.functional.interpolate`, one axis after the other.

use super::kernel::vectorised;
use super::pad::gather_axes;
use super::positions::{Axis, Taps};
use super::real::{for_real, real_dtype, tensor_like, with_values, Real};
use candle::{bail, DType, Result, Tensor};
use rayon::prelude::*;

/// Takes the nearest input below each output's position; any dtype. `scales` holds the scale factor
/// per axis where the caller gave one, or is empty.
pub fn upsample_nearest(x: &Tensor, output: &[usize], scales: &[Option<f64>]) -> Result<Tensor> {
    let axes = resized_axes(x, output, scales)?;
    let mut sources: Vec<Vec<usize>> = x.dims().iter().map(|&dim| (0..dim).collect()).collect();
    for axis in axes {
        sources[axis.index] = (0..axis.output)
            .map(|i| axis.nearest(i, output.len() == 2, x.dtype()))
            .collect();
    }
    gather_axes(x, &sources, 0.0)
}

/// Linear, bilinear or trilinear interpolation by the length of `output`.
pub fn upsample_linear(
    x: &Tensor,
    output: &[usize],
    align_corners: bool,
    scales: &[Option<f64>],
) -> Result<Tensor> {
    resample(x, output, align_corners, scales, Axis::linear)
}

/// Bicubic interpolation of the last two dims.
pub fn upsample_bicubic(
    x: &Tensor,
    output: &[usize],
    align_corners: bool,
    scales: &[Option<f64>],
) -> Result<Tensor> {
    resample(x, output, align_corners, scales, Axis::cubic)
}

/// Moves factors of `r * r` channels into an image `r` times as high and wide.
pub fn pixel_shuffle(x: &Tensor, r: usize) -> Result<Tensor> {
    let [outer @ .., channels, height, width] = x.dims() else {
        bail!(
            "pixel_shuffle needs at least three dims, got {:?}",
            x.shape()
        );
    };
    if r == 0 || channels % (r * r) != 0 {
        bail!("pixel_shuffle: {channels} channels do not divide by {r} squared");
    }
    let images = outer.iter().product::<usize>() * channels / (r * r);
    x.reshape((images, r, r, *height, *width))?
        .permute((0, 3, 1, 4, 2))?
        .reshape([outer, &[channels / (r * r), height * r, width * r]].concat())
}

fn resized_axes(x: &Tensor, output: &[usize], scales: &[Option<f64>]) -> Result<Vec<Axis>> {
    if x.rank() != output.len() + 2 || output.is_empty() {
        bail!("no resizing of {:?} to {output:?}", x.shape());
    }
    let axis = |(i, &output): (usize, &usize)| Axis {
        index: i + 2,
        input: x.dims()[i + 2],
        output,
        scale: scales
            .get(i)
            .copied()
            .flatten()
            .filter(|&scale| scale > 0.0),
    };
    let axes: Vec<Axis> = output.iter().enumerate().map(axis).collect();
    if axes.iter().any(|axis| axis.input == 0 || axis.output == 0) {
        bail!(
            "no resizing of {:?} to {output:?}: sizes have to be positive",
            x.shape()
        );
    }
    Ok(axes)
}

fn resample(
    x: &Tensor,
    output: &[usize],
    align_corners: bool,
    scales: &[Option<f64>],
    taps: impl Fn(&Axis, usize, bool, DType) -> Taps,
) -> Result<Tensor> {
    let axes = resized_axes(x, output, scales)?;
    let dtype = real_dtype("interpolation", x.dtype())?;
    let mut dims = x.dims().to_vec();
    for_real!(dtype, T => {
        let mut values = with_values::<T, _>(x, |x| Ok(x.to_vec()))?;
        for axis in axes.iter().rev() {
            let table: Vec<Taps> = (0..axis.output)
                .map(|i| taps(axis, i, align_corners, dtype))
                .collect();
            let inner: usize = dims[axis.index + 1..].iter().product();
            values = resample_axis(&values, axis.input, inner, &table);
            dims[axis.index] = axis.output;
        }
        tensor_like(x, values, &dims)
    })
}

/// Interpolates the middle axis of (outer, len, inner) values.
fn resample_axis<T: Real>(x: &[T], len: usize, inner: usize, table: &[Taps]) -> Vec<T> {
    let outer = x.len() / (len * inner).max(1);
    let mut y = vec![T::ZERO; outer * table.len() * inner];
    if y.is_empty() {
        return y;
    }
    let width = if table
        .iter()
        .all(|taps| taps[2].1 == 0.0 && taps[3].1 == 0.0)
    {
        2
    } else {
        4
    };
    let planes = y
        .par_chunks_mut(table.len() * inner)
        .zip(x.par_chunks(len * inner));
    planes.for_each(|(y, x)| {
        for (y, taps) in y.chunks_mut(inner).zip(table) {
            if inner == 1 {
                let sum = taps[..width].iter().map(|&(i, w)| x[i] * T::narrow(w));
                y[0] = sum.reduce(|a, b| a + b).unwrap_or(T::ZERO);
                continue;
            }
            let lines = taps.map(|(i, _)| &x[i * inner..][..inner]);
            let weights = taps.map(|(_, weight)| T::narrow(weight));
            match width {
                2 => blend2(lines[0], lines[1], weights[0], weights[1], y),
                _ => blend4(lines, weights, y),
            }
        }
    });
    y
}

fn blend2<T: Real>(a: &[T], b: &[T], a_weight: T, b_weight: T, y: &mut [T]) {
    vectorised(
        #[inline(always)]
        || {
            for ((y, &a), &b) in y.iter_mut().zip(a).zip(b) {
                *y = a * a_weight + b * b_weight;
            }
        },
    )
}

fn blend4<T: Real>(lines: [&[T]; 4], w: [T; 4], y: &mut [T]) {
    vectorised(
        #[inline(always)]
        || {
            let [a, b, c, d] = lines;
            for ((((y, &a), &b), &c), &d) in y.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *y = a * w[0] + b * w[1] + c * w[2] + d * w[3];
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::test_tensors::{line, values};
    use super::*;
    use candle::Device;

    #[test]
    fn nearest_rounds_down() -> Result<()> {
        let y = upsample_nearest(&line(&[1.0, 2.0, 3.0])?, &[5], &[])?;
        assert_eq!(values(y)?, [1.0, 1.0, 2.0, 2.0, 3.0]);
        Ok(())
    }

    #[test]
    fn corners_are_aligned_or_not() -> Result<()> {
        let x = line(&[0.0, 4.0])?;
        assert_eq!(
            values(upsample_linear(&x, &[5], true, &[])?)?,
            [0.0, 1.0, 2.0, 3.0, 4.0]
        );
        assert_eq!(
            values(upsample_linear(&x, &[4], false, &[])?)?,
            [0.0, 1.0, 3.0, 4.0]
        );
        Ok(())
    }

    #[test]
    fn a_given_scale_sets_the_positions() -> Result<()> {
        let x = line(&[0.0, 2.0, 4.0, 6.0])?;
        let y = upsample_linear(&x, &[3], false, &[Some(0.8)])?;
        assert_eq!(values(y)?, [0.25, 2.75, 5.25]);
        Ok(())
    }

    #[test]
    fn bicubic_reproduces_a_plane_away_from_the_border() -> Result<()> {
        let grid: Vec<f32> = (0..64).map(|i| (i / 8 * 2 + i % 8) as f32).collect();
        let x = Tensor::from_vec(grid, (1, 1, 8, 8), &Device::Cpu)?;
        let y = upsample_bicubic(&x, &[15, 15], true, &[])?
            .squeeze(0)?
            .squeeze(0)?
            .to_vec2::<f32>()?;
        for (i, row) in y.iter().enumerate().take(12).skip(3) {
            for (j, value) in row.iter().enumerate().take(12).skip(3) {
                assert!((value - (i as f32 + j as f32 / 2.0)).abs() < 1e-5);
            }
        }
        Ok(())
    }

    #[test]
    fn pixel_shuffle_moves_channels_into_space() -> Result<()> {
        let x = Tensor::arange(0i64, 8, &Device::Cpu)?.reshape((1, 4, 1, 2))?;
        let y = pixel_shuffle(&x, 2)?;
        assert_eq!(
            y.squeeze(0)?.squeeze(0)?.to_vec2::<i64>()?,
            [[0, 2, 1, 3], [4, 6, 5, 7]]
        );
        Ok(())
    }
}
