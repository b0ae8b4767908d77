//! Weights that are in memory only while the module that reads them runs, so that a model may be larger than memory.
//!
//! The tensors that a model is made of are empty at first. When a module's call begins, the checker has the weights that
//! the module reads filled from the file, and when the call ends, emptied again.

use candle::safetensors::Load;
use candle::{bail, CpuStorage, DType, Device, InplaceOp1, Layout, Result, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use memmap2::MmapOptions;
use safetensors::tensor::{Metadata, TensorView};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

thread_local! {
    static STORE: RefCell<Option<Arc<Store>>> = const { RefCell::new(None) };
}

/// The path of each module, and the names of the weights that are read while it runs.
type Reads = BTreeMap<String, Vec<String>>;

/// Weights from `file`, of which those that the JSON file `reads` names are in memory only while they are read.
pub(crate) fn var_builder(
    file: &Path,
    reads: &Path,
    dtype: DType,
    device: &Device,
) -> Result<VarBuilder<'static>> {
    let store = Arc::new(Store::open(file, reads)?);
    STORE.set(Some(store.clone()));
    Ok(VarBuilder::from_backend(
        Box::new(Backend(store)),
        dtype,
        device.clone(),
    ))
}

/// Fills the weights that a module reads; its call begins.
pub(crate) fn begin(path: &str) -> Result<()> {
    STORE.with_borrow(|store| match store {
        Some(store) => store.begin(path),
        None => Ok(()),
    })
}

/// Empties the weights that a module reads and no module around it; its call ends.
pub(crate) fn end(path: &str) -> Result<()> {
    STORE.with_borrow(|store| match store {
        Some(store) => store.end(path),
        None => Ok(()),
    })
}

struct Store {
    path: PathBuf,
    file: File,
    header: Metadata,
    body_start: u64,
    reads: Reads,
    lent: Mutex<HashMap<String, Lent>>,
}

/// A tensor that the model holds, and by how many calls it is read now.
struct Lent {
    tensor: Tensor,
    readers: usize,
}

impl Store {
    fn open(path: &Path, reads: &Path) -> Result<Self> {
        let failed =
            |error: std::io::Error, path: &Path| candle::Error::wrap(error).with_path(path);
        let text = std::fs::read_to_string(reads).map_err(|error| failed(error, reads))?;
        let reads = serde_json::from_str(&text)
            .map_err(|error| candle::Error::wrap(error).with_path(reads))?;
        let file = File::open(path).map_err(|error| failed(error, path))?;
        let (header, body_start) = read_header(&file).map_err(|error| error.with_path(path))?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
            header,
            body_start,
            reads,
            lent: Mutex::default(),
        })
    }

    fn lent(&self) -> MutexGuard<'_, HashMap<String, Lent>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_streamed(&self, name: &str) -> bool {
        self.reads.values().flatten().any(|known| known == name)
    }

    /// The tensor as it is in the file.
    fn read(&self, name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
        let Some(info) = self.header.info(name) else {
            bail!("{} has no tensor {name}", self.path.display())
        };
        let (start, end) = info.data_offsets;
        if start == end {
            return Tensor::zeros(info.shape.as_slice(), dtype, device);
        }
        let mut options = MmapOptions::new();
        options
            .offset(self.body_start + start as u64)
            .len(end - start);
        // SAFETY: the file is only mapped, and nothing else writes to it meanwhile.
        let bytes = unsafe { options.map(&self.file) }.map_err(candle::Error::wrap)?;
        let view =
            TensorView::new(info.dtype, info.shape.clone(), &bytes).map_err(candle::Error::wrap)?;
        view.load(device)?.to_dtype(dtype)
    }

    /// A tensor for the model to hold, which is empty if it is streamed.
    fn lend(&self, name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
        if !self.is_streamed(name) {
            return self.read(name, dtype, device);
        }
        if let Some(known) = self
            .lent()
            .get(name)
            .filter(|lent| lent.tensor.dtype() == dtype)
        {
            return Ok(known.tensor.clone());
        }
        let Some(info) = self.header.info(name) else {
            bail!("{} has no tensor {name}", self.path.display())
        };
        let tensor = Tensor::zeros(info.shape.as_slice(), dtype, device)?;
        tensor.inplace_op1(&Put::new(emptied(dtype)?))?;
        let lent = Lent {
            tensor: tensor.clone(),
            readers: 0,
        };
        match self.lent().insert(name.to_string(), lent) {
            None => Ok(tensor),
            Some(_) => bail!("{name} is read in two dtypes and cannot be streamed"),
        }
    }

    fn begin(&self, path: &str) -> Result<()> {
        let mut lent = self.lent();
        for name in self.reads.get(path).into_iter().flatten() {
            let Some(known) = lent.get_mut(name) else {
                continue;
            };
            if known.readers == 0 {
                let (dtype, device) = (known.tensor.dtype(), known.tensor.device());
                let put = Put::new(taken(&self.read(name, dtype, device)?)?);
                known.tensor.inplace_op1(&put)?;
            }
            known.readers += 1;
        }
        Ok(())
    }

    fn end(&self, path: &str) -> Result<()> {
        let mut lent = self.lent();
        for name in self.reads.get(path).into_iter().flatten() {
            let Some(known) = lent.get_mut(name) else {
                continue;
            };
            known.readers = known.readers.saturating_sub(1);
            if known.readers == 0 {
                let put = Put::new(emptied(known.tensor.dtype())?);
                known.tensor.inplace_op1(&put)?;
            }
        }
        Ok(())
    }
}

/// The header of a file, and where the values begin. The file is not mapped: a mapping of all of it would count against a
/// limit of the address space, whatever is read of it.
fn read_header(mut file: &File) -> Result<(Metadata, u64)> {
    let size = file.metadata()?.len();
    let mut length = [0; size_of::<u64>()];
    file.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    let body_start = length.saturating_add(size_of::<u64>() as u64);
    if body_start > size {
        bail!("the header would have {length} bytes, and the file has {size}");
    }
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text)?;
    // It holds the tensors against each other: each begins where the one before it ends.
    let header: Metadata = serde_json::from_slice(&text).map_err(candle::Error::wrap)?;
    if body_start + header.data_len() as u64 != size {
        bail!("the file is cut off, or longer than its tensors");
    }
    Ok((header, body_start))
}

struct Backend(Arc<Store>);

impl SimpleBackend for Backend {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        let tensor = self.get_unchecked(name, dtype, device)?;
        if tensor.shape() != &shape {
            return Err(candle::Error::UnexpectedShape {
                msg: format!("shape mismatch for {name}"),
                expected: shape,
                got: tensor.shape().clone(),
            }
            .bt());
        }
        Ok(tensor)
    }

    fn get_unchecked(&self, name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
        self.0.lend(name, dtype, device)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.0.header.info(name).is_some()
    }
}

/// Exchanges the values of a tensor for others.
struct Put(Mutex<Option<CpuStorage>>);

impl Put {
    fn new(values: CpuStorage) -> Self {
        Self(Mutex::new(Some(values)))
    }

    fn values(&self) -> MutexGuard<'_, Option<CpuStorage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InplaceOp1 for Put {
    fn name(&self) -> &'static str {
        "put"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> Result<()> {
        if let Some(values) = self.values().as_mut() {
            std::mem::swap(storage, values);
        }
        Ok(())
    }
}

/// The values of a tensor that nobody else holds, which is left empty.
fn taken(tensor: &Tensor) -> Result<CpuStorage> {
    let put = Put::new(emptied(tensor.dtype())?);
    tensor.inplace_op1(&put)?;
    let values = put.values().take();
    values.ok_or_else(|| candle::Error::Msg("a tensor gave no values".into()))
}

fn emptied(dtype: DType) -> Result<CpuStorage> {
    Ok(match dtype {
        DType::U8 => CpuStorage::U8(Vec::new()),
        DType::U32 => CpuStorage::U32(Vec::new()),
        DType::I16 => CpuStorage::I16(Vec::new()),
        DType::I32 => CpuStorage::I32(Vec::new()),
        DType::I64 => CpuStorage::I64(Vec::new()),
        DType::BF16 => CpuStorage::BF16(Vec::new()),
        DType::F16 => CpuStorage::F16(Vec::new()),
        DType::F32 => CpuStorage::F32(Vec::new()),
        DType::F64 => CpuStorage::F64(Vec::new()),
        dtype => bail!("weights of {dtype:?} cannot be streamed"),
    })
}
