//! Weights from a GGUF file, some of which are in blocks of a quantised format.

use crate::nn::as_stored;
use candle::quantized::gguf_file::Content;
use candle::quantized::QTensor;
use candle::{DType, Device, Error, Result, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use memmap2::Mmap;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

/// Weights from a file that is either safetensors or GGUF, as its first bytes say.
pub fn open_weights(path: &Path, dtype: DType, device: &Device) -> Result<VarBuilder<'static>> {
    let with_path = |error: std::io::Error| Error::wrap(error).with_path(path);
    let mut file = File::open(path).map_err(with_path)?;
    let mut magic = [0; 4];
    if file.read_exact(&mut magic).is_err() || magic != *b"GGUF" {
        // SAFETY: the file is only mapped, and nothing else writes to it meanwhile.
        return unsafe { VarBuilder::from_mmaped_safetensors(&[path], dtype, device) };
    }
    // SAFETY: as above.
    let mapped = unsafe { Mmap::map(&file) }.map_err(with_path)?;
    let content = Content::read(&mut Cursor::new(&mapped)).map_err(|e| e.with_path(path))?;
    let weights = GgufWeights { mapped, content };
    Ok(VarBuilder::from_backend(
        Box::new(weights),
        dtype,
        device.clone(),
    ))
}

struct GgufWeights {
    mapped: Mmap,
    content: Content,
}

impl GgufWeights {
    fn read(&self, name: &str) -> Result<QTensor> {
        if !self.contains_tensor(name) {
            let path = name.to_string();
            return Err(Error::CannotFindTensor { path }.bt());
        }
        let mut mapped = Cursor::new(&self.mapped);
        self.content.tensor(&mut mapped, name, &Device::Cpu)
    }
}

impl SimpleBackend for GgufWeights {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        hint: Init,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let stored = self.read(name)?;
        // A file has no tensors without axes; such a one is stored with one axis of length 1.
        let is_scalar = shape.rank() == 0 && stored.shape().dims() == [1];
        if *stored.shape() != shape && !is_scalar {
            return Err(Error::UnexpectedShape {
                msg: format!("shape mismatch for {name}"),
                expected: shape,
                got: stored.shape().clone(),
            }
            .bt());
        }
        match as_stored(&stored, hint)? {
            Some(blocks) => Ok(blocks),
            None => stored.dequantize(device)?.reshape(shape)?.to_dtype(dtype),
        }
    }

    fn get_unchecked(&self, name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
        self.read(name)?.dequantize(device)?.to_dtype(dtype)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.content.tensor_infos.contains_key(name)
    }
}
