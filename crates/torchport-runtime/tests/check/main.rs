//! What the checker promises: its verdicts, what it hands on, and what it leaves on disk.

mod files;
mod limits;
mod modes;
mod verdicts;

use candle::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use torchport_runtime::check::{read_tensors, Checker, Probe};

/// A golden trace of a model with root `Net`.
fn trace(dir: &Path, tensors: &[(&str, Tensor)], aliases: &[(&str, &str)]) -> PathBuf {
    let aliases: HashMap<_, _> = aliases.iter().copied().collect();
    let metadata = [
        ("schema", "1"),
        ("root", "Net"),
        ("aliases", &json(&aliases)),
    ];
    trace_with(dir, tensors, &metadata)
}

fn trace_with(dir: &Path, tensors: &[(&str, Tensor)], metadata: &[(&str, &str)]) -> PathBuf {
    let metadata = metadata
        .iter()
        .map(|(entry, value)| (entry.to_string(), value.to_string()))
        .collect();
    let path = dir.join("net_trace.safetensors");
    let tensors = tensors.iter().map(|(key, tensor)| (*key, tensor));
    safetensors::serialize_to_file(tensors, Some(metadata), &path).unwrap();
    path
}

fn checker(tensors: &[(&str, Tensor)], aliases: &[(&str, &str)]) -> (tempfile::TempDir, Checker) {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path(), tensors, aliases);
    let checker = Checker::load("net", dir.path(), &Device::Cpu).unwrap();
    (dir, checker)
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::new(values, &Device::Cpu).unwrap()
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec1().unwrap()
}

fn probe(path: &str) -> Probe {
    let vb = VarBuilder::zeros(DType::F32, &Device::Cpu);
    let parts = path.split('.').filter(|part| !part.is_empty());
    Probe::new(&parts.fold(vb, |vb, part| vb.pp(part)))
}

/// The float32 values that a checker records while `run` runs.
fn recorded<T>(
    dir: &Path,
    checker: Checker,
    run: impl FnOnce() -> Result<T>,
) -> BTreeMap<String, Vec<f32>> {
    let path = dir.join("candidate.safetensors");
    let checker = checker.record_to(&path);
    checker.watch(run).unwrap();
    checker.finish().unwrap();
    let written = read_tensors(&path, &Device::Cpu).unwrap();
    written
        .into_iter()
        .map(|(key, tensor)| (key, values(&tensor)))
        .collect()
}
