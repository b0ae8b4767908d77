//! Weights from a GGUF file, some of which are in blocks of a quantised format.

use crate::nn::as_stored;
use candle::quantized::gguf_file::{Content, Value};
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

/// Before the name of a tensor in the metadata.
const TRANSPOSED: &str = "torchport.transposed.";

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

    /// Whether the file has a weight with its axes the other way round than the model, so that blocks are of its outputs.
    fn is_transposed(&self, name: &str) -> bool {
        let known = self.content.metadata.get(&[TRANSPOSED, name].concat());
        matches!(known, Some(Value::Bool(true)))
    }

    /// The weight as the model has it.
    fn dense(&self, name: &str, stored: &QTensor, device: &Device) -> Result<Tensor> {
        let dense = stored.dequantize(device)?;
        if self.is_transposed(name) {
            return dense.t()?.contiguous();
        }
        Ok(dense)
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
        let is_transposed = self.is_transposed(name);
        let mut dims = stored.shape().dims().to_vec();
        if is_transposed {
            dims.reverse();
        }
        if dims != shape.dims() && !is_scalar {
            return Err(Error::UnexpectedShape {
                msg: format!("shape mismatch for {name}"),
                expected: shape,
                got: dims.into(),
            }
            .bt());
        }
        match as_stored(&stored, hint)? {
            Some(blocks) if !is_transposed => Ok(blocks),
            _ => self
                .dense(name, &stored, device)?
                .reshape(shape)?
                .to_dtype(dtype),
        }
    }

    fn get_unchecked(&self, name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
        self.dense(name, &self.read(name)?, device)?.to_dtype(dtype)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.content.tensor_infos.contains_key(name)
    }
}
