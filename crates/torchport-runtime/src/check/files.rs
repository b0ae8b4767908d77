//! Safetensors files to candle tensors and back. Candle has no bool and no int8: they are read as U8 and I16.

use super::error::CheckError;
use candle::safetensors::Load;
use candle::{Device, Tensor};
use memmap2::Mmap;
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensorError, SafeTensors};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Reads every tensor of a safetensors file.
pub fn read_tensors(
    path: impl AsRef<Path>,
    device: &Device,
) -> Result<HashMap<String, Tensor>, CheckError> {
    let path = path.as_ref();
    let bytes = map_file(path)?;
    let file = SafeTensors::deserialize(&bytes).map_err(CheckError::format(path))?;
    file.iter()
        .map(|(key, view)| Ok((key.to_string(), load_view(key, &view, device)?)))
        .collect()
}

/// Writes tensors (a map or any other pairs of name and tensor) to a file that appears only when it is complete.
pub fn write_tensors<'a, K: AsRef<str> + 'a>(
    tensors: impl IntoIterator<Item = (K, &'a Tensor)>,
    path: impl AsRef<Path>,
) -> Result<(), CheckError> {
    let path = path.as_ref();
    let tensors: Vec<_> = tensors
        .into_iter()
        .map(|(key, tensor)| (key.as_ref().to_string(), tensor))
        .collect();
    let beside = beside(path, "tmp");
    let written = safetensors::serialize_to_file(tensors, None, &beside)
        .map_err(|error| match error {
            SafeTensorError::IoError(source) => CheckError::io(path)(source),
            error => CheckError::format(path)(error),
        })
        .and_then(|()| std::fs::rename(&beside, path).map_err(CheckError::io(path)));
    if written.is_err() {
        // Nothing to be done if it was never made.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// A hidden name in the same folder, so that a rename to `path` stays on one file system.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.{suffix}", std::process::id()))
}

pub(super) fn map_file(path: &Path) -> Result<Mmap, CheckError> {
    let file = File::open(path).map_err(CheckError::io(path))?;
    // SAFETY: traces are written beside and renamed, so a mapped file is never changed in place.
    unsafe { Mmap::map(&file) }.map_err(CheckError::io(path))
}

pub(super) fn load_view(
    key: &str,
    view: &TensorView<'_>,
    device: &Device,
) -> Result<Tensor, CheckError> {
    let tensor = match view.dtype() {
        Dtype::BOOL => {
            let values: Vec<u8> = view.data().iter().map(|&byte| (byte != 0).into()).collect();
            Tensor::from_vec(values, view.shape(), device)?
        }
        Dtype::I8 => {
            let values: Vec<i16> = view
                .data()
                .iter()
                .map(|&byte| (byte as i8).into())
                .collect();
            Tensor::from_vec(values, view.shape(), device)?
        }
        _ => view.load(device).map_err(|error| match error {
            candle::Error::UnsupportedSafeTensorDtype(dtype) => CheckError::UnsupportedDtype {
                key: key.to_string(),
                dtype: format!("{dtype:?}"),
            },
            error => error.into(),
        })?,
    };
    Ok(tensor)
}
