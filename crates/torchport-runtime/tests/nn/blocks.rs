//! Layers whose weights are in the blocks of a GGUF file.

use super::{assert_close, noise};
use candle::quantized::{gguf_file, GgmlDType, QTensor};
use candle::{DType, Device, IndexOp, Module, Result, Tensor};
use candle_nn::VarBuilder;
use std::path::PathBuf;
use torchport_runtime::gguf::open_weights;
use torchport_runtime::nn::{embedding, linear, linear_no_bias, Weight};

struct Written {
    _folder: tempfile::TempDir,
    file: PathBuf,
}

impl Written {
    fn new(tensors: &[(&str, QTensor)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weights.gguf");
        let named: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, t)| (*name, t)).collect();
        gguf_file::write(&mut std::fs::File::create(&file).unwrap(), &[], &named).unwrap();
        Self {
            _folder: folder,
            file,
        }
    }

    fn open(&self) -> VarBuilder<'static> {
        open_weights(&self.file, DType::F32, &Device::Cpu).unwrap()
    }
}

fn blocks(weight: &Tensor, format: GgmlDType) -> QTensor {
    QTensor::quantize(weight, format).unwrap()
}

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

#[test]
fn a_product_is_that_of_the_weights_in_the_blocks_whatever_the_format() -> Result<()> {
    let (weight, bias) = (noise(1, &[48, 512]), noise(2, &[48]));
    let xs = noise(3, &[2, 5, 512]);
    for format in FORMATS {
        let stored = blocks(&weight, format);
        let dense = stored.dequantize(&Device::Cpu)?;
        let file = Written::new(&[
            ("fc.weight", stored),
            ("fc.bias", blocks(&bias, GgmlDType::F32)),
        ]);
        let layer = linear(512, 48, file.open().pp("fc"))?;
        assert!(matches!(layer.weight(), Weight::Blocks(_)), "{format:?}");
        assert_eq!(layer.weight().dims(), [48, 512]);
        let ys = xs.apply(&layer)?;
        assert_eq!(ys.dims(), [2, 5, 48]);
        let exact = xs.broadcast_matmul(&dense.t()?)?.broadcast_add(&bias)?;
        // candle rounds `xs` to 8 bits: that is what is left of an error.
        let error = (&ys - &exact)?.sqr()?.mean_all()?.to_scalar::<f32>()?;
        let signal = exact.sqr()?.mean_all()?.to_scalar::<f32>()?;
        assert!(error < 1e-4 * signal, "{format:?}: {error} of {signal}");
    }
    Ok(())
}

#[test]
fn rows_are_looked_up_in_blocks_exactly() -> Result<()> {
    let weight = noise(1, &[7, 256]);
    let ids = Tensor::new(&[[6i64, 0, 3]], &Device::Cpu)?;
    for format in FORMATS {
        let stored = blocks(&weight, format);
        let dense = stored.dequantize(&Device::Cpu)?;
        let layer = embedding(7, 256, Written::new(&[("weight", stored)]).open())?;
        let ys = ids.apply(&layer)?;
        assert_eq!(ys.dims(), [1, 3, 256]);
        assert_close(&ys.i((0, 0))?, &dense.i(6)?);
        assert_close(&ys.i((0, 2))?, &dense.i(3)?);
        for outside in [7i64, -1] {
            let ids = Tensor::new(&[outside], &Device::Cpu)?;
            assert!(
                layer.forward(&ids).is_err(),
                "{format:?} has a row {outside}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_weight_keeps_its_blocks_under_another_name() -> Result<()> {
    let file = Written::new(&[("table.weight", blocks(&noise(1, &[5, 32]), GgmlDType::Q8_0))]);
    let vb = file.open().rename_f(|name| name.replace("head", "table"));
    let layer = linear_no_bias(32, 5, vb.pp("head"))?;
    assert!(matches!(layer.weight(), Weight::Blocks(_)));
    Ok(())
}

#[test]
fn what_is_no_number_stays_none() -> Result<()> {
    let file = Written::new(&[("weight", blocks(&noise(1, &[4, 32]), GgmlDType::Q4_0))]);
    let layer = linear_no_bias(32, 4, file.open())?;
    for value in [f32::NAN, f32::INFINITY] {
        let mut row = vec![1f32; 64];
        row[3] = value;
        let ys = Tensor::from_vec(row, (2, 32), &Device::Cpu)?.apply(&layer)?;
        let ys = ys.to_vec2::<f32>()?;
        assert!(ys[0].iter().all(|y| !y.is_finite()), "{ys:?}");
        assert!(ys[1].iter().all(|y| y.is_finite()), "{ys:?}");
    }
    Ok(())
}

#[test]
fn no_rows_give_no_rows() -> Result<()> {
    let file = Written::new(&[("weight", blocks(&noise(1, &[4, 32]), GgmlDType::Q4_0))]);
    let layer = linear_no_bias(32, 4, file.open())?;
    let ys = Tensor::zeros((0, 3, 32), DType::F32, &Device::Cpu)?.apply(&layer)?;
    assert_eq!(ys.dims(), [0, 3, 4]);
    Ok(())
}

#[test]
fn weights_of_another_shape_and_files_that_are_cut_off_are_refused() -> Result<()> {
    let file = Written::new(&[("weight", blocks(&noise(1, &[4, 32]), GgmlDType::Q4_0))]);
    assert!(linear_no_bias(64, 2, file.open()).is_err());
    assert!(linear_no_bias(32, 4, file.open().pp("other")).is_err());
    let bytes = std::fs::read(&file.file)?;
    std::fs::write(&file.file, &bytes[..bytes.len() - 40])?;
    assert!(linear_no_bias(32, 4, file.open()).is_err());
    std::fs::write(&file.file, &bytes[..20])?;
    assert!(open_weights(&file.file, DType::F32, &Device::Cpu).is_err());
    Ok(())
}

#[test]
fn a_weight_that_the_file_says_is_transposed_is_as_the_model_has_it() -> Result<()> {
    let weight = noise(4, &[64, 64]);
    let stored = blocks(&weight, GgmlDType::Q8_0);
    let dense = stored.dequantize(&Device::Cpu)?;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weights.gguf");
    let transposed = gguf_file::Value::Bool(true);
    gguf_file::write(
        &mut std::fs::File::create(&file)?,
        &[("torchport.transposed.turned", &transposed)],
        &[("turned", &stored), ("plain", &stored)],
    )?;
    let vb = open_weights(&file, DType::F32, &Device::Cpu)?;
    let (turned, plain) = (vb.get((64, 64), "turned")?, vb.get((64, 64), "plain")?);
    assert_eq!(plain.to_vec2::<f32>()?, dense.to_vec2::<f32>()?);
    assert_eq!(turned.to_vec2::<f32>()?, dense.t()?.to_vec2::<f32>()?);
    assert!(matches!(
        Weight::load((64, 64), "turned", &vb)?,
        Weight::Dense(_)
    ));
    Ok(())
}
