//! What the checker promises: its verdicts, what it hands on, and what it leaves on disk.

mod files;
mod modes;
mod verdicts;

use candle::{Device, Tensor};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use torchport_runtime::check::Checker;

/// A golden trace of a model with root `Net`.
fn trace(dir: &Path, tensors: &[(&str, Tensor)], aliases: &[(&str, &str)]) -> PathBuf {
    let aliases: HashMap<_, _> = aliases.iter().copied().collect();
    let metadata = HashMap::from([
        ("schema".to_string(), "1".to_string()),
        ("root".to_string(), "Net".to_string()),
        (
            "aliases".to_string(),
            serde_json::to_string(&aliases).unwrap(),
        ),
    ]);
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
