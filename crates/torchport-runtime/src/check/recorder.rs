//! Writes a candidate trace as it is computed, with one tensor in memory at a time.

use super::error::CheckError;
use super::files;
use candle::Tensor;
use safetensors::tensor::View;
use serde_json::{json, Map, Value};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Readers want every tensor aligned to its element size and no gaps in the file. So there is a body for each
/// element size, and the widest comes first in the finished file.
pub(super) struct Recorder {
    path: PathBuf,
    bodies: BTreeMap<usize, Body>,
    keys: HashSet<String>,
}

struct Body {
    path: PathBuf,
    file: BufWriter<File>,
    len: usize,
    entries: Vec<Entry>,
}

struct Entry {
    key: String,
    dtype: String,
    shape: Vec<usize>,
    start: usize,
    end: usize,
}

impl Recorder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            bodies: BTreeMap::new(),
            keys: HashSet::new(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A key that was written before stays as it was.
    pub(super) fn write(&mut self, key: &str, value: &Tensor) -> Result<(), CheckError> {
        if !self.keys.insert(key.to_string()) {
            return Ok(());
        }
        let element_size = value.dtype().size_in_bytes();
        let body = match self.bodies.entry(element_size) {
            std::collections::btree_map::Entry::Occupied(body) => body.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => {
                let path = files::beside(&self.path, &format!("body{element_size}"));
                free.insert(Body::create(path)?)
            }
        };
        body.append(key, value)
    }

    /// Puts header and bodies together under the final name.
    pub(super) fn finish(self, metadata: Value) -> Result<(), CheckError> {
        let beside = files::beside(&self.path, "tmp");
        let widest_first: Vec<Body> = self.bodies.into_values().rev().collect();
        let header = header(&widest_first, metadata)?;
        let mut file = File::create(&beside).map_err(CheckError::io(&beside))?;
        let write = |file: &mut File, bytes: &[u8]| file.write_all(bytes);
        write(&mut file, &(header.len() as u64).to_le_bytes()).map_err(CheckError::io(&beside))?;
        write(&mut file, &header).map_err(CheckError::io(&beside))?;
        for body in widest_first {
            body.move_into(&mut file)?;
        }
        std::fs::rename(&beside, &self.path).map_err(CheckError::io(&self.path))
    }
}

impl Body {
    fn create(path: PathBuf) -> Result<Self, CheckError> {
        let file = File::create(&path).map_err(CheckError::io(&path))?;
        Ok(Self {
            path,
            file: BufWriter::new(file),
            len: 0,
            entries: Vec::new(),
        })
    }

    fn append(&mut self, key: &str, value: &Tensor) -> Result<(), CheckError> {
        let bytes = value.data();
        self.file
            .write_all(&bytes)
            .map_err(CheckError::io(&self.path))?;
        let dtype = safetensors::Dtype::from(value.dtype());
        self.entries.push(Entry {
            key: key.to_string(),
            dtype: dtype.to_string(),
            shape: value.dims().to_vec(),
            start: self.len,
            end: self.len + bytes.len(),
        });
        self.len += bytes.len();
        Ok(())
    }

    fn move_into(mut self, target: &mut File) -> Result<(), CheckError> {
        self.file.flush().map_err(CheckError::io(&self.path))?;
        let mut source = File::open(&self.path).map_err(CheckError::io(&self.path))?;
        std::io::copy(&mut source, target).map_err(CheckError::io(&self.path))?;
        Ok(())
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // Nothing to be done if it is gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn header(bodies: &[Body], metadata: Value) -> Result<Vec<u8>, CheckError> {
    let mut header = Map::new();
    header.insert("__metadata__".to_string(), metadata);
    let mut body_start = 0;
    for body in bodies {
        for entry in &body.entries {
            let value = json!({
                "dtype": entry.dtype,
                "shape": entry.shape,
                "data_offsets": [body_start + entry.start, body_start + entry.end],
            });
            header.insert(entry.key.clone(), value);
        }
        body_start += body.len;
    }
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(size_of::<u64>()), b' ');
    Ok(header)
}
