//! Layers with one input, against their definitions.

use super::{assert_close, noise, weights};
use candle::{DType, Device, IndexOp, Module, Result, Tensor};
use candle_nn::VarBuilder;
use torchport_runtime::nn::*;
use torchport_runtime::ops::PadMode;

fn none() -> VarBuilder<'static> {
    weights(&[])
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::new(values, &Device::Cpu).unwrap()
}

#[test]
fn linear_multiplies_by_the_transposed_weight_and_applies_to_any_rank() -> Result<()> {
    let (weight, bias) = (noise(1, &[4, 3]), noise(2, &[4]));
    let vb = weights(&[("fc.weight", weight.clone()), ("fc.bias", bias.clone())]);
    let xs = noise(3, &[2, 5, 3]);
    let product = xs
        .reshape((10, 3))?
        .matmul(&weight.t()?)?
        .reshape((2, 5, 4))?;
    assert_close(&xs.apply(&linear_no_bias(3, 4, vb.pp("fc"))?)?, &product);
    let layer = linear(3, 4, vb.pp("fc"))?;
    assert_close(&xs.apply(&layer)?, &product.broadcast_add(&bias)?);
    assert_eq!(layer.weight().dims(), [4, 3]);
    Ok(())
}

#[test]
fn a_weight_of_another_shape_is_refused() {
    let vb = weights(&[("weight", noise(1, &[3, 4])), ("bias", noise(2, &[4]))]);
    assert!(linear(3, 4, vb).is_err());
}

#[test]
fn embedding_looks_rows_up() -> Result<()> {
    let weight = noise(1, &[5, 3]);
    let layer = embedding(5, 3, weights(&[("weight", weight.clone())]))?;
    let ids = Tensor::new(&[[4i64, 0]], &Device::Cpu)?;
    let ys = ids.apply(&layer)?;
    assert_eq!(ys.dims(), [1, 2, 3]);
    assert_close(&ys.i((0, 0))?, &weight.i(4)?);
    assert_close(&ys.i((0, 1))?, &weight.i(0)?);
    Ok(())
}

#[test]
fn convolutions_take_a_number_for_each_axis() -> Result<()> {
    let cfg = ConvConfig {
        stride: [2, 1],
        padding: [0, 1],
        groups: 2,
        ..Default::default()
    };
    let vb = weights(&[
        ("weight", noise(1, &[6, 2, 3, 3])),
        ("bias", noise(2, &[6])),
    ]);
    let ys = noise(3, &[1, 4, 7, 5]).apply(&conv2d(4, 6, [3, 3], cfg, vb)?)?;
    assert_eq!(ys.dims(), [1, 6, 3, 5]);
    Ok(())
}

#[test]
fn a_convolution_pads_by_its_padding_mode() -> Result<()> {
    let ones = Tensor::ones((1, 1, 3), DType::F32, &Device::Cpu)?;
    let xs = floats(&[1.0, 2.0, 4.0]).reshape((1, 1, 3))?;
    let expected = [
        (PadMode::Zeros, [3.0, 7.0, 6.0]),
        (PadMode::Reflect, [5.0, 7.0, 8.0]),
        (PadMode::Replicate, [4.0, 7.0, 10.0]),
        (PadMode::Circular, [7.0, 7.0, 7.0]),
    ];
    for (padding_mode, sums) in expected {
        let cfg = ConvConfig {
            padding: [1],
            padding_mode,
            ..Default::default()
        };
        let layer = conv1d_no_bias(1, 1, [3], cfg, weights(&[("weight", ones.clone())]))?;
        assert_close(&xs.apply(&layer)?.flatten_all()?, &floats(&sums));
    }
    Ok(())
}

#[test]
fn transposed_convolution_has_input_channels_first_in_its_weight() -> Result<()> {
    let cfg = ConvTransposeConfig {
        stride: [2],
        output_padding: [1],
        groups: 2,
        ..Default::default()
    };
    let vb = weights(&[("weight", noise(1, &[4, 3, 3])), ("bias", noise(2, &[6]))]);
    let ys = noise(3, &[2, 4, 5]).apply(&conv_transpose1d(4, 6, [3], cfg, vb)?)?;
    assert_eq!(ys.dims(), [2, 6, 12]);
    Ok(())
}

#[test]
fn channels_that_do_not_divide_into_groups_are_refused() {
    let cfg = ConvConfig {
        groups: 3,
        ..Default::default()
    };
    let vb = weights(&[("weight", noise(1, &[6, 1, 1]))]);
    assert!(conv1d_no_bias(4, 6, [1], cfg, vb).is_err());
    assert!(group_norm_no_affine(3, 4, 1e-5, none()).is_err());
}

#[test]
fn layer_norm_normalises_all_the_dims_of_its_shape() -> Result<()> {
    let xs = noise(1, &[2, 3, 4]);
    let ys = xs.apply(&layer_norm_no_affine((3, 4), 0.0, none())?)?;
    let rows = ys.reshape((2, 12))?;
    assert_close(&rows.mean(1)?, &floats(&[0.0, 0.0]));
    assert_close(&rows.sqr()?.mean(1)?, &floats(&[1.0, 1.0]));
    let (weight, bias) = (noise(2, &[3, 4]), noise(3, &[3, 4]));
    let vb = weights(&[("weight", weight.clone()), ("bias", bias.clone())]);
    let scaled = ys.broadcast_mul(&weight)?;
    assert_close(
        &xs.apply(&layer_norm_no_bias((3, 4), 0.0, vb.clone())?)?,
        &scaled,
    );
    let shifted = scaled.broadcast_add(&bias)?;
    assert_close(&xs.apply(&layer_norm((3, 4), 0.0, vb)?)?, &shifted);
    Ok(())
}

#[test]
fn rms_norm_divides_by_the_root_mean_square() -> Result<()> {
    let xs = floats(&[3.0, 4.0]).reshape((1, 2))?;
    let vb = weights(&[("weight", floats(&[1.0, 2.0]))]);
    let rms = 12.5f32.sqrt();
    let expected = floats(&[3.0 / rms, 8.0 / rms]).reshape((1, 2))?;
    assert_close(&xs.apply(&rms_norm(2, 0.0, vb)?)?, &expected);
    Ok(())
}

#[test]
fn group_norm_over_one_group_is_layer_norm() -> Result<()> {
    let xs = noise(1, &[2, 4, 3]);
    let (weight, bias) = (noise(2, &[4]), noise(3, &[4]));
    let vb = weights(&[("weight", weight.clone()), ("bias", bias.clone())]);
    let plain = xs.apply(&layer_norm_no_affine((4, 3), 1e-5, none())?)?;
    let expected = plain
        .broadcast_mul(&weight.reshape((4, 1))?)?
        .broadcast_add(&bias.reshape((4, 1))?)?;
    assert_close(&xs.apply(&group_norm(1, 4, 1e-5, vb)?)?, &expected);
    Ok(())
}

#[test]
fn batch_norm_uses_the_running_statistics_at_any_rank() -> Result<()> {
    let vb = weights(&[
        ("running_mean", floats(&[1.0, -1.0])),
        ("running_var", floats(&[4.0, 0.25])),
        ("weight", floats(&[1.0, 2.0])),
        ("bias", floats(&[0.0, 3.0])),
    ]);
    let xs = floats(&[3.0, 0.0]);
    for shape in [vec![1, 2], vec![1, 2, 1], vec![1, 2, 1, 1]] {
        let xs = xs.reshape(shape)?;
        let plain = xs.apply(&batch_norm_no_affine(2, 0.0, vb.clone())?)?;
        assert_close(&plain.flatten_all()?, &floats(&[1.0, 2.0]));
        let affine = xs.apply(&batch_norm(2, 0.0, vb.clone())?)?;
        assert_close(&affine.flatten_all()?, &floats(&[1.0, 7.0]));
    }
    Ok(())
}

#[test]
fn activations_follow_their_definitions() -> Result<()> {
    let xs = [-4.0f32, -1.0, -0.25, 0.0, 0.5, 2.0, 7.0];
    let sigmoid_of = |x: f32| 1.0 / (1.0 + (-x).exp());
    let softplus_of = |x: f32| x.exp().ln_1p();
    let tanh_gelu = |x: f32| {
        let inner = (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
        0.5 * x * (1.0 + inner.tanh())
    };
    type Definition<'a> = &'a dyn Fn(f32) -> f32;
    let rows: [(Activation, Definition); 14] = [
        (relu(none()), &|x| x.max(0.0)),
        (relu6(none()), &|x| x.clamp(0.0, 6.0)),
        (gelu(none()), &|x| {
            0.5 * x * (1.0 + libm::erff(x / 2f32.sqrt()))
        }),
        (gelu_tanh(none()), &tanh_gelu),
        (sigmoid(none()), &sigmoid_of),
        (tanh(none()), &|x| x.tanh()),
        (silu(none()), &|x| x * sigmoid_of(x)),
        (mish(none()), &|x| x * softplus_of(x).tanh()),
        (hardswish(none()), &|x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
        (hardsigmoid(none()), &|x| (x + 3.0).clamp(0.0, 6.0) / 6.0),
        (elu(0.5, none()), &|x| {
            if x > 0.0 {
                x
            } else {
                0.5 * x.exp_m1()
            }
        }),
        (leaky_relu(0.1, none()), &|x| {
            if x > 0.0 {
                x
            } else {
                0.1 * x
            }
        }),
        (softplus(1.0, 20.0, none()), &softplus_of),
        (identity(none()), &|x| x),
    ];
    for (layer, definition) in &rows {
        let expected: Vec<f32> = xs.iter().map(|&x| definition(x)).collect();
        assert_close(&floats(&xs).apply(layer)?, &floats(&expected));
    }
    Ok(())
}

#[test]
fn softmax_sums_to_one_along_its_dim() -> Result<()> {
    let ys = noise(1, &[3, 4]).apply(&softmax(0, none()))?;
    assert_close(&ys.sum(0)?, &floats(&[1.0; 4]));
    Ok(())
}

#[test]
fn layers_are_modules() -> Result<()> {
    let layers: Vec<Box<dyn Module>> = vec![
        Box::new(relu(none())),
        Box::new(layer_norm_no_affine(4, 1e-5, none())?),
    ];
    let ys = layers
        .iter()
        .try_fold(noise(1, &[2, 4]), |xs, layer| layer.forward(&xs))?;
    assert_eq!(ys.dims(), [2, 4]);
    Ok(())
}
