//! A golden trace: a memory-mapped safetensors file in which some keys are aliases of others.

use super::error::CheckError;
use super::files;
use candle::{Device, Tensor};
use memmap2::Mmap;
use safetensors::tensor::{Metadata, TensorView};
use safetensors::SafeTensors;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The version of the format of traces that are read and written.
pub(super) const SCHEMA: &str = "1";

pub(super) struct Trace {
    path: PathBuf,
    bytes: Mmap,
    header: Metadata,
    body_start: usize,
    root: String,
    aliases: BTreeMap<String, String>,
    limits: BTreeMap<String, f64>,
}

impl Trace {
    pub(super) fn open(path: &Path) -> Result<Self, CheckError> {
        let bytes = files::map_file(path)?;
        let (header_len, header) =
            SafeTensors::read_metadata(&bytes).map_err(CheckError::format(path))?;
        let entry = |name: &str| header.metadata().as_ref()?.get(name).cloned();
        let invalid = |entry: &'static str, reason: String| CheckError::Metadata {
            path: path.to_path_buf(),
            entry,
            reason,
        };
        if let Some(schema) = entry("schema").filter(|schema| schema != SCHEMA) {
            let reason = format!("{schema} is not {SCHEMA}, the schema of this version");
            return Err(invalid("schema", reason));
        }
        let root = entry("root").unwrap_or_default();
        let aliases = match entry("aliases") {
            None => BTreeMap::new(),
            Some(json) => serde_json::from_str(&json)
                .map_err(|error| invalid("aliases", error.to_string()))?,
        };
        let limits = match entry("limits") {
            None => BTreeMap::new(),
            Some(json) => read_limits(&json).map_err(|reason| invalid("limits", reason))?,
        };
        Ok(Self {
            path: path.to_path_buf(),
            body_start: header_len + size_of::<u64>(),
            bytes,
            header,
            root,
            aliases,
            limits,
        })
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// Whether `key` has a tensor of its own.
    pub(super) fn owns(&self, key: &str) -> bool {
        self.header.info(key).is_some()
    }

    /// Whether `key`, or the key that it is an alias of, has a tensor.
    pub(super) fn has(&self, key: &str) -> bool {
        self.owns(self.resolve(key))
    }

    pub(super) fn is_alias(&self, key: &str) -> bool {
        self.aliases.contains_key(key) && !self.owns(key)
    }

    /// The tensor of `key` or of the key that it is an alias of, or `None` if the trace has neither.
    pub(super) fn find(&self, key: &str, device: &Device) -> Result<Option<Tensor>, CheckError> {
        let Some(info) = self.header.info(self.resolve(key)) else {
            return Ok(None);
        };
        let (start, end) = info.data_offsets;
        let data = &self.bytes[self.body_start + start..self.body_start + end];
        let view = TensorView::new(info.dtype, info.shape.clone(), data)
            .map_err(CheckError::format(&self.path))?;
        files::load_view(key, &view, device).map(Some)
    }

    pub(super) fn get(&self, key: &str, device: &Device) -> Result<Tensor, CheckError> {
        self.find(key, device)?
            .ok_or_else(|| CheckError::MissingKey {
                path: self.path.clone(),
                key: key.to_string(),
            })
    }

    /// The largest absolute difference from `key` that is allowed, as the recorder of the trace wrote it.
    pub(super) fn limit(&self, key: &str) -> Result<f64, CheckError> {
        let limit = self.limits.get(key);
        limit
            .or_else(|| self.limits.get(self.resolve(key)))
            .copied()
            .ok_or_else(|| CheckError::NoLimit {
                path: self.path.clone(),
                key: key.to_string(),
            })
    }

    /// An alias may point to an alias; a circle of them has no tensor and ends after as many steps as there are.
    fn resolve<'a>(&'a self, key: &'a str) -> &'a str {
        let mut target = key;
        for _ in 0..=self.aliases.len() {
            match self.aliases.get(target) {
                Some(next) if !self.owns(target) => target = next,
                _ => break,
            }
        }
        target
    }
}

fn read_limits(json: &str) -> Result<BTreeMap<String, f64>, String> {
    let limits: BTreeMap<String, f64> =
        serde_json::from_str(json).map_err(|error| error.to_string())?;
    match limits.iter().find(|(_, limit)| **limit < 0.0) {
        Some((key, limit)) => Err(format!("the limit of `{key}` is {limit}")),
        None => Ok(limits),
    }
}
