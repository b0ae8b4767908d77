//! A weight of a product or of a table: dense, or in the blocks of a quantised format.

use crate::ops;
use candle::quantized::{GgmlDType, QStorage, QTensor};
use candle::{bail, CpuStorage, DType, Device, Result, Storage, Tensor};
use candle_nn::{Init, VarBuilder};
use std::borrow::Cow;
use std::sync::Arc;

/// The hint by which a weight is asked for as it is stored. A `VarBuilder` hands hints on to what reads the file, through
/// every renaming, and only a file of blocks makes something of this one: no model is initialised with minus infinity.
const AS_STORED: f64 = f64::NEG_INFINITY;

const FORMATS: [GgmlDType; 10] = [
    GgmlDType::Q4_0,
    GgmlDType::Q4_1,
    GgmlDType::Q5_0,
    GgmlDType::Q5_1,
    GgmlDType::Q8_0,
    GgmlDType::Q2K,
    GgmlDType::Q3K,
    GgmlDType::Q4K,
    GgmlDType::Q5K,
    GgmlDType::Q6K,
];

/// A weight of two axes as its file has it.
#[derive(Debug, Clone)]
pub enum Weight {
    Dense(Tensor),
    Blocks(Arc<QTensor>),
}

impl From<Tensor> for Weight {
    fn from(weight: Tensor) -> Self {
        Self::Dense(weight)
    }
}

impl Weight {
    /// Reads the weight called `name`, in blocks if the file has it so.
    pub fn load(shape: (usize, usize), name: &str, vb: &VarBuilder) -> Result<Self> {
        let stored = vb.get_with_hints(shape, name, Init::Const(AS_STORED))?;
        if stored.dtype() != DType::U8 {
            return Ok(Self::Dense(stored));
        }
        let bytes = stored.to_vec1::<u8>()?;
        let Some((&format, blocks)) = bytes.split_last() else {
            bail!("{name} has no format");
        };
        let format = FORMATS[usize::from(format)];
        let storage = QStorage::from_data(Cow::Borrowed(blocks), &Device::Cpu, format)?;
        Ok(Self::Blocks(Arc::new(QTensor::new(storage, shape)?)))
    }

    pub fn dims(&self) -> &[usize] {
        match self {
            Self::Dense(weight) => weight.dims(),
            Self::Blocks(weight) => weight.shape().dims(),
        }
    }

    /// The weight as a tensor, whatever it takes.
    pub fn dense(&self) -> Result<Tensor> {
        match self {
            Self::Dense(weight) => Ok(weight.clone()),
            Self::Blocks(weight) => weight.dequantize(&weight.device()),
        }
    }

    /// `xs · wᵀ + bias` over the last dim of `xs`.
    pub fn product(&self, xs: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        match self {
            Self::Dense(weight) => ops::linear(xs, weight, bias),
            // candle rounds `xs` to blocks of 8 bits, in which there is no NaN and no infinity.
            Self::Blocks(weight) if is_finite(xs)? => in_blocks(xs, weight, bias),
            Self::Blocks(_) => ops::linear(xs, &self.dense()?, bias),
        }
    }

    /// The rows at `ids`.
    pub fn rows(&self, ids: &Tensor) -> Result<Tensor> {
        match self {
            Self::Dense(weight) => ops::embedding(weight, ids),
            Self::Blocks(weight) => weight.embedding(ids),
        }
    }
}

/// What a file of blocks gives for a weight that is asked for by its hint: the blocks, and a last byte that says of which
/// format they are. None if it is no such hint, or the weight is no such weight.
pub(crate) fn as_stored(weight: &QTensor, hint: Init) -> Result<Option<Tensor>> {
    let format = FORMATS.iter().position(|&format| format == weight.dtype());
    match (hint, format) {
        (Init::Const(AS_STORED), Some(format)) => {
            let mut bytes = weight.data()?.into_owned();
            bytes.push(format as u8);
            let count = bytes.len();
            Ok(Some(Tensor::from_vec(bytes, count, &Device::Cpu)?))
        }
        _ => Ok(None),
    }
}

fn in_blocks(xs: &Tensor, weight: &QTensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let (out, inner) = weight.shape().dims2()?;
    let Some((&last, batch)) = xs.dims().split_last() else {
        bail!("linear needs an input with at least one dim");
    };
    if last != inner {
        bail!(
            "linear: input {:?} does not fit weight {:?}",
            xs.shape(),
            weight.shape()
        );
    }
    let shape = [batch, &[out]].concat();
    let rows = batch.iter().product::<usize>();
    if rows == 0 {
        return Tensor::zeros(shape, xs.dtype(), xs.device());
    }
    let flat = xs.to_dtype(DType::F32)?.reshape((rows, inner))?;
    let ys = flat
        .contiguous()?
        .apply_op1_no_bwd(weight)?
        .reshape(shape)?;
    let ys = match bias {
        Some(bias) => ops::add(&ys, bias)?,
        None => ys,
    };
    ys.to_dtype(xs.dtype())
}

fn is_finite(xs: &Tensor) -> Result<bool> {
    let xs = xs.to_dtype(DType::F32)?.contiguous()?;
    let (storage, layout) = xs.storage_and_layout();
    let Storage::Cpu(CpuStorage::F32(values)) = &*storage else {
        return Ok(true);
    };
    let start = layout.start_offset();
    Ok(values[start..start + xs.elem_count()]
        .iter()
        .all(|x| x.is_finite()))
}
