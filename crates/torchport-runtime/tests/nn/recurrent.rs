//! Recurrent layers against their equations, in every arrangement that torch has.

use super::equations::{affine, gru_step, lstm_step, matrix, Weights, HIDDEN, INPUT};
use super::{assert_close, noise, weights};
use candle::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use std::collections::HashMap;
use torchport_runtime::nn::*;

const STEPS: usize = 5;

fn tensor(rows: &[Vec<f64>]) -> Tensor {
    let values: Vec<f32> = rows.iter().flatten().map(|&value| value as f32).collect();
    Tensor::from_vec(values, (rows.len(), rows[0].len()), &Device::Cpu).unwrap()
}

fn builder(layers: &[&Weights]) -> VarBuilder<'static> {
    let tensors = layers.iter().flat_map(|layer| &layer.tensors);
    let tensors: Vec<_> = tensors
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    weights(&tensors)
}

#[test]
fn two_lstm_layers_in_both_directions_follow_the_equations() -> Result<()> {
    for bias in [true, false] {
        let layer = |number: u32, input: usize| {
            ["", "_reverse"].map(|direction| {
                let seed = 10 * number + direction.len() as u32;
                Weights::new(
                    4,
                    input,
                    HIDDEN,
                    &format!("l{number}{direction}"),
                    bias,
                    seed,
                )
            })
        };
        let layers = [layer(0, INPUT), layer(1, 2 * HIDDEN)];
        let inputs = noise(7, &[STEPS, INPUT]);
        let mut xs = matrix(&inputs);
        let (mut last_hidden, mut last_cell) = (vec![], vec![]);
        for directions in &layers {
            let mut outputs = vec![vec![]; STEPS];
            for (weights, backwards) in directions.iter().zip([false, true]) {
                let (mut hidden, mut cell) = (vec![0.0; HIDDEN], vec![0.0; HIDDEN]);
                for step in 0..STEPS {
                    let at = if backwards { STEPS - 1 - step } else { step };
                    (hidden, cell) = lstm_step(weights, &xs[at], &hidden, &cell);
                    outputs[at].extend_from_slice(&hidden);
                }
                last_hidden.push(hidden);
                last_cell.push(cell);
            }
            xs = outputs;
        }
        let cfg = RnnConfig {
            num_layers: 2,
            bidirectional: true,
            bias,
            ..Default::default()
        };
        let vb = builder(&layers.iter().flatten().collect::<Vec<_>>());
        let (ys, hidden, cell) = lstm(INPUT, HIDDEN, cfg, vb)?.forward(&inputs)?;
        assert_close(&ys, &tensor(&xs));
        assert_close(&hidden, &tensor(&last_hidden));
        assert_close(&cell, &tensor(&last_cell));
    }
    Ok(())
}

#[test]
fn a_gru_follows_the_equations_from_a_given_state() -> Result<()> {
    let weights = Weights::new(3, INPUT, HIDDEN, "l0", true, 1);
    let (xs, h0) = (noise(7, &[STEPS, INPUT]), noise(8, &[1, HIDDEN]));
    let mut hidden = matrix(&h0).remove(0);
    let mut outputs = vec![];
    for x in matrix(&xs) {
        hidden = gru_step(&weights, &x, &hidden);
        outputs.push(hidden.clone());
    }
    let layer = gru(INPUT, HIDDEN, RnnConfig::default(), builder(&[&weights]))?;
    let (ys, last) = layer.forward_with_state(&xs, &h0)?;
    assert_close(&ys, &tensor(&outputs));
    assert_close(&last, &tensor(&[hidden]));
    Ok(())
}

#[test]
fn an_rnn_follows_the_equations_with_both_nonlinearities() -> Result<()> {
    let weights = Weights::new(1, INPUT, HIDDEN, "l0", true, 1);
    let xs = noise(7, &[STEPS, INPUT]);
    for nonlinearity in [Nonlinearity::Tanh, Nonlinearity::Relu] {
        let function = |x: f64| match nonlinearity {
            Nonlinearity::Tanh => x.tanh(),
            Nonlinearity::Relu => x.max(0.0),
        };
        let mut hidden = vec![0.0; HIDDEN];
        let mut outputs = vec![];
        for x in matrix(&xs) {
            let (from_x, from_h) = weights.shares(&x, &hidden);
            hidden = from_x
                .iter()
                .zip(&from_h)
                .map(|(x, h)| function(x + h))
                .collect();
            outputs.push(hidden.clone());
        }
        let cfg = RnnConfig::default();
        let layer = rnn(INPUT, HIDDEN, cfg, nonlinearity, builder(&[&weights]))?;
        let (ys, last) = layer.forward(&xs)?;
        assert_close(&ys, &tensor(&outputs));
        assert_close(&last, &tensor(&[hidden]));
    }
    Ok(())
}

#[test]
fn a_projected_lstm_hands_on_the_projection() -> Result<()> {
    const PROJECTED: usize = 2;
    let mut layer = Weights::new(4, INPUT, PROJECTED, "l0", true, 1);
    let projection = noise(9, &[PROJECTED, HIDDEN]);
    layer
        .tensors
        .push(("weight_hr_l0".to_string(), projection.clone()));
    let projection = matrix(&projection);
    let xs = noise(7, &[STEPS, INPUT]);
    let (mut hidden, mut cell) = (vec![0.0; PROJECTED], vec![0.0; HIDDEN]);
    let mut outputs = vec![];
    for x in matrix(&xs) {
        (hidden, cell) = lstm_step(&layer, &x, &hidden, &cell);
        hidden = affine(&projection, &[0.0; PROJECTED], &hidden);
        outputs.push(hidden.clone());
    }
    let cfg = RnnConfig {
        proj_size: PROJECTED,
        ..Default::default()
    };
    let (ys, h_n, c_n) = lstm(INPUT, HIDDEN, cfg, builder(&[&layer]))?.forward(&xs)?;
    assert_close(&ys, &tensor(&outputs));
    assert_close(&h_n, &tensor(&[hidden]));
    assert_close(&c_n, &tensor(&[cell]));
    assert!(gru(INPUT, HIDDEN, cfg, builder(&[&layer])).is_err());
    Ok(())
}

#[test]
fn the_batch_may_come_first_second_or_not_at_all() -> Result<()> {
    let weights = Weights::new(3, INPUT, HIDDEN, "l0", true, 1);
    let layer = |batch_first| {
        let cfg = RnnConfig {
            batch_first,
            ..Default::default()
        };
        gru(INPUT, HIDDEN, cfg, builder(&[&weights]))
    };
    let xs = noise(7, &[STEPS, 2, INPUT]);
    let (ys, hidden) = layer(false)?.forward(&xs)?;
    assert_eq!(
        (ys.dims(), hidden.dims()),
        (&[STEPS, 2, HIDDEN][..], &[1, 2, HIDDEN][..])
    );
    let (ys_first, hidden_first) = layer(true)?.forward(&xs.transpose(0, 1)?)?;
    assert_close(&ys_first.transpose(0, 1)?, &ys);
    assert_close(&hidden_first, &hidden);
    for sample in 0..2 {
        let (ys_alone, hidden_alone) =
            layer(true)?.forward(&xs.narrow(1, sample, 1)?.squeeze(1)?)?;
        assert_close(&ys_alone, &ys.narrow(1, sample, 1)?.squeeze(1)?);
        assert_close(&hidden_alone, &hidden.narrow(1, sample, 1)?.squeeze(1)?);
    }
    Ok(())
}

#[test]
fn states_and_sequences_of_the_wrong_shape_are_refused() -> Result<()> {
    let weights = Weights::new(3, INPUT, HIDDEN, "l0", true, 1);
    let layer = gru(INPUT, HIDDEN, RnnConfig::default(), builder(&[&weights]))?;
    let xs = noise(7, &[STEPS, 2, INPUT]);
    assert!(layer
        .forward_with_state(&xs, &noise(8, &[1, 1, HIDDEN]))
        .is_err());
    assert!(layer
        .forward_with_state(&xs, &noise(8, &[1, HIDDEN]))
        .is_err());
    assert!(layer.forward(&xs.narrow(0, 0, 0)?).is_err());
    assert!(layer.forward(&noise(8, &[INPUT])).is_err());
    assert!(layer.forward(&xs.to_dtype(DType::F64)?).is_err());
    Ok(())
}

#[test]
fn half_precision_keeps_its_dtype_and_loses_no_more_than_rounding() -> Result<()> {
    let weights = Weights::new(4, INPUT, HIDDEN, "l0", true, 1);
    let xs = noise(7, &[50, INPUT]).to_dtype(DType::BF16)?;
    let rounded: HashMap<_, _> = weights
        .tensors
        .iter()
        .map(|(name, value)| Ok((name.clone(), value.to_dtype(DType::BF16)?)))
        .collect::<Result<_>>()?;
    let layer = |dtype| {
        let vb = VarBuilder::from_tensors(rounded.clone(), dtype, &Device::Cpu);
        lstm(INPUT, HIDDEN, RnnConfig::default(), vb)
    };
    let (ys, _, _) = layer(DType::BF16)?.forward(&xs)?;
    let (exact, _, _) = layer(DType::F32)?.forward(&xs.to_dtype(DType::F32)?)?;
    assert_eq!(ys.dtype(), DType::BF16);
    assert_close(
        &ys.to_dtype(DType::F32)?,
        &exact.to_dtype(DType::BF16)?.to_dtype(DType::F32)?,
    );
    Ok(())
}
