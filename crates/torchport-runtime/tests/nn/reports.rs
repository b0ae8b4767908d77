//! Layers show their inputs and outputs to a checker under the path they were built with.

use super::{noise, weights};
use candle::{Device, Result, Tensor};
use std::collections::HashMap;
use torchport_runtime::check::{read_tensors, write_tensors, Checker};
use torchport_runtime::nn::*;

/// Asserts that `run`, watched along the tensors of `golden`, records exactly these.
fn assert_reports<T>(golden: &[(&str, Tensor)], run: impl FnOnce() -> Result<T>) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let trace = dir.path().join("net_trace.safetensors");
    let named: HashMap<_, _> = golden.iter().map(|(key, value)| (*key, value)).collect();
    write_tensors(named, &trace)?;
    let record = dir.path().join("candidate.safetensors");
    let checker = Checker::open(&trace, &Device::Cpu)?.record_to(&record);
    checker.watch(run)?;
    checker.finish()?;
    let written = read_tensors(&record, &Device::Cpu)?;
    assert_eq!(written.len(), golden.len());
    for (key, value) in golden {
        let written = written[*key].flatten_all()?.to_vec1::<f32>()?;
        assert_eq!(written, value.flatten_all()?.to_vec1::<f32>()?, "{key}");
    }
    Ok(())
}

#[test]
fn a_layer_reports_its_input_and_its_output() -> Result<()> {
    let vb = weights(&[("block.0.fc.weight", noise(1, &[4, 3]))]);
    let layer = linear_no_bias(3, 4, vb.pp("block").pp(0).pp("fc"))?;
    let xs = noise(2, &[2, 3]);
    let ys = xs.apply(&layer)?;
    let golden = [("block.0.fc<0", xs.clone()), ("block.0.fc", ys)];
    assert_reports(&golden, || xs.apply(&layer))
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
    let golden = [
        ("rnn<0", xs.clone()),
        ("rnn<1", h0.clone()),
        ("rnn<2", c0.clone()),
        ("rnn", ys),
        ("rnn:1", hidden),
        ("rnn:2", cell),
    ];
    assert_reports(&golden, || layer.forward_with_state(&xs, &h0, &c0))
}
