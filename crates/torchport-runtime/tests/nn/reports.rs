//! Layers show their inputs and outputs to a checker under the path they were built with.

use super::{noise, weights};
use candle::{Device, Result, Tensor};
use std::collections::HashMap;
use torchport_runtime::check::{write_tensors, Checker};
use torchport_runtime::nn::*;

fn checker_of(golden: &[(&str, Tensor)]) -> (tempfile::TempDir, Checker) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("net_trace.safetensors");
    let golden: HashMap<_, _> = golden.iter().map(|(key, value)| (*key, value)).collect();
    write_tensors(golden, &path).unwrap();
    (dir, Checker::open(&path, &Device::Cpu).unwrap())
}

#[test]
fn a_layer_reports_its_input_and_its_output() -> Result<()> {
    let vb = weights(&[("block.0.fc.weight", noise(1, &[4, 3]))]);
    let layer = linear_no_bias(3, 4, vb.pp("block").pp(0).pp("fc"))?;
    let xs = noise(2, &[2, 3]);
    let ys = xs.apply(&layer)?;
    let (_dir, checker) = checker_of(&[("block.0.fc<0", xs.clone()), ("block.0.fc", ys)]);
    checker.watch(|| xs.apply(&layer))?;
    let summary = checker.finish()?;
    assert!(summary.passed, "{summary:?}");
    assert_eq!(summary.comparisons.len(), 2);
    Ok(())
}

#[test]
fn a_recurrent_layer_reports_states_in_and_out() -> Result<()> {
    let vb = weights(&[
        ("rnn.weight_ih_l0", noise(1, &[8, 3])),
        ("rnn.weight_hh_l0", noise(2, &[8, 2])),
    ]);
    let cfg = RnnConfig {
        bias: false,
        ..Default::default()
    };
    let layer = lstm(3, 2, cfg, vb.pp("rnn"))?;
    let (xs, h0, c0) = (
        noise(3, &[4, 1, 3]),
        noise(4, &[1, 1, 2]),
        noise(5, &[1, 1, 2]),
    );
    let (ys, hidden, cell) = layer.forward_with_state(&xs, &h0, &c0)?;
    let (_dir, checker) = checker_of(&[
        ("rnn<0", xs.clone()),
        ("rnn<1", h0.clone()),
        ("rnn<2", c0.clone()),
        ("rnn", ys),
        ("rnn:1", hidden),
        ("rnn:2", cell),
    ]);
    checker.watch(|| layer.forward_with_state(&xs, &h0, &c0))?;
    let summary = checker.finish()?;
    assert!(summary.passed, "{summary:?}");
    assert_eq!(summary.comparisons.len(), 6);
    Ok(())
}
