//! What is read from and written to disk.

use super::{checker, floats, probe, recorded, trace};
use candle::{DType, Device, Result, Tensor};
use safetensors::tensor::{Dtype, TensorView};
use std::collections::{BTreeMap, HashMap};
use torchport_runtime::check::{read_tensors, write_tensors, CheckError, Checker, Mode};

fn write_bool_and_i8(path: &std::path::Path) {
    let bools = TensorView::new(Dtype::BOOL, vec![3], &[1, 0, 1]).unwrap();
    let bytes = TensorView::new(Dtype::I8, vec![2], &[0x80, 5]).unwrap();
    safetensors::serialize_to_file([("mask", bools), ("codes", bytes)], None, path).unwrap();
}

#[test]
fn bool_is_read_as_u8_and_int8_as_i16() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.safetensors");
    write_bool_and_i8(&path);
    let tensors = read_tensors(&path, &Device::Cpu)?;
    assert_eq!(tensors["mask"].to_vec1::<u8>()?, [1, 0, 1]);
    assert_eq!(tensors["codes"].to_vec1::<i16>()?, [-128, 5]);
    let checker = Checker::open(&path, &Device::Cpu)?;
    let same = Tensor::new(&[1u8, 0, 1], &Device::Cpu)?;
    assert!(checker.verify("mask", &same)?.passed);
    let other = Tensor::new(&[1u8, 1, 1], &Device::Cpu)?;
    assert!(!checker.verify("mask", &other)?.passed);
    Ok(())
}

#[test]
fn tensors_come_back_as_they_were_written() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.safetensors");
    let tensors = BTreeMap::from([("a".to_string(), floats(&[1.0, 2.0]))]);
    write_tensors(&tensors, &path)?;
    assert_eq!(
        read_tensors(&path, &Device::Cpu)?["a"].to_vec1::<f32>()?,
        [1.0, 2.0]
    );
    write_tensors(&HashMap::from([("b", floats(&[3.0]))]), &path)?;
    assert_eq!(
        read_tensors(&path, &Device::Cpu)?["b"].to_vec1::<f32>()?,
        [3.0]
    );
    assert_eq!(std::fs::read_dir(dir.path())?.count(), 1);
    Ok(())
}

#[test]
fn aliases_are_followed_and_circles_of_them_are_missing() -> Result<()> {
    let aliases = [("b", "a"), ("c", "b"), ("x", "y"), ("y", "x")];
    let (_dir, checker) = checker(&[("a", floats(&[4.0]))], &aliases);
    assert_eq!(checker.golden("c")?.to_vec1::<f32>()?, [4.0]);
    let checker = checker.tolerance(0.0, 0.0);
    assert!(checker.verify("c", &floats(&[4.0]))?.passed);
    assert!(matches!(
        checker.golden("x"),
        Err(CheckError::MissingKey { .. })
    ));
    Ok(())
}

#[test]
fn files_that_are_not_traces_are_named_in_the_error() {
    let dir = tempfile::tempdir().unwrap();
    let absent = Checker::load("absent", dir.path(), &Device::Cpu)
        .err()
        .unwrap();
    assert!(absent.to_string().contains("absent_trace.safetensors"));
    let path = dir.path().join("broken.safetensors");
    std::fs::write(&path, b"not a trace at all").unwrap();
    let broken = Checker::open(&path, &Device::Cpu).err().unwrap();
    assert!(matches!(broken, CheckError::Format { .. }));
    assert!(broken.to_string().contains("broken.safetensors"));
}

#[test]
fn a_trace_of_another_schema_or_with_broken_metadata_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.safetensors");
    for (entry, value) in [
        ("schema", "2"),
        ("aliases", "{"),
        ("limits", "[]"),
        ("limits", r#"{"fc": "0.1"}"#),
        ("limits", r#"{"fc": NaN}"#),
        ("limits", r#"{"fc": Infinity}"#),
        ("limits", r#"{"fc": -1e-9}"#),
    ] {
        let metadata = HashMap::from([(entry.to_string(), value.to_string())]);
        safetensors::serialize_to_file([("fc", floats(&[1.0]))], Some(metadata), &path).unwrap();
        let error = Checker::open(&path, &Device::Cpu).err().unwrap();
        assert!(matches!(error, CheckError::Metadata { entry: named, .. } if named == entry));
    }
}

#[test]
fn a_recording_holds_computed_values() -> Result<()> {
    let golden = [("fc<0", floats(&[1.0])), ("fc", floats(&[9.0]))];
    let (dir, checker) = checker(&golden, &[("fd", "fc")]);
    let path = dir.path().join("candidate.safetensors");
    let checker = checker.mode(Mode::LockStep).record_to(&path);
    checker.watch(|| -> Result<()> {
        let mask = Tensor::new(&[1u8, 0, 1], &Device::Cpu)?;
        probe("mask").output(mask)?;
        probe("fc").input(0, floats(&[1.0]))?;
        probe("fc").input(7, floats(&[1.0]))?;
        let out = probe("fc").output(floats(&[2.0]))?;
        probe("fd").output(out)?;
        probe("extra").output(Tensor::new(&[5i64], &Device::Cpu)?)?;
        Ok(())
    })?;
    assert!(!path.exists());
    checker.finish()?;
    let written = read_tensors(&path, &Device::Cpu)?;
    let mut keys: Vec<_> = written.keys().map(String::as_str).collect();
    keys.sort();
    assert_eq!(keys, ["extra", "fc", "fc<0", "fd", "mask"]);
    assert_eq!(written["fd"].to_vec1::<f32>()?, [9.0]);
    assert_eq!(written["fc"].to_vec1::<f32>()?, [2.0]);
    assert_eq!(written["extra"].to_vec1::<i64>()?, [5]);
    assert_eq!(written["mask"].to_vec1::<u8>()?, [1, 0, 1]);
    assert_eq!(std::fs::read_dir(dir.path())?.count(), 2);
    Ok(())
}

#[test]
fn an_input_that_is_an_alias_is_recorded_only_when_it_is_another() -> Result<()> {
    let given = floats(&[9.0, f32::NAN, 0.0]);
    let others = [
        floats(&[9.0, f32::NAN, 1.0]),
        floats(&[9.0, 2.0, 0.0]),
        floats(&[f32::NAN, 9.0, 0.0]),
        given.to_dtype(DType::F64)?,
        given.reshape((3, 1))?,
    ];
    for (handed_on, expected) in others
        .iter()
        .map(|other| (other, true))
        .chain([(&given, false), (&floats(&[9.0, -f32::NAN, -0.0]), false)])
    {
        let golden = [("fc", given.clone()), ("act", floats(&[3.0]))];
        let (dir, checker) = checker(&golden, &[("act<0", "fc")]);
        let path = dir.path().join("candidate.safetensors");
        let checker = checker.mode(Mode::LockStep).record_to(&path);
        checker.watch(|| -> Result<()> {
            probe("fc").output(given.clone())?;
            probe("act").input(0, handed_on)?;
            probe("act").output(floats(&[3.0]))?;
            Ok(())
        })?;
        checker.finish()?;
        let written = read_tensors(&path, &Device::Cpu)?;
        assert_eq!(written.contains_key("act<0"), expected, "{handed_on}");
    }
    Ok(())
}

#[test]
fn another_integer_is_another_input_even_beyond_float_precision() -> Result<()> {
    let golden = Tensor::new(&[1i64 << 60], &Device::Cpu)?;
    for (handed_on, expected) in [(1i64 << 60, false), ((1 << 60) + 1, true)] {
        let (dir, checker) = checker(&[("ids", golden.clone())], &[("act<0", "ids")]);
        let path = dir.path().join("candidate.safetensors");
        let checker = checker.mode(Mode::LockStep).record_to(&path);
        checker.watch(|| probe("act").input(0, &Tensor::new(&[handed_on], &Device::Cpu)?))?;
        checker.finish()?;
        let written = read_tensors(&path, &Device::Cpu)?;
        assert_eq!(written.contains_key("act<0"), expected);
    }
    Ok(())
}

#[test]
fn a_difference_in_a_later_chunk_makes_another_input() -> Result<()> {
    let count = 3 * 70_000;
    let golden = Tensor::zeros(count, DType::F32, &Device::Cpu)?;
    let mut other = vec![0f32; count];
    other[count - 1] = 1.0;
    let (dir, checker) = checker(&[("fc", golden)], &[("act<0", "fc")]);
    let keys = recorded(dir.path(), checker.mode(Mode::LockStep), || {
        probe("act").input(0, floats(&other))
    });
    assert_eq!(keys["act<0"], other);
    Ok(())
}

#[test]
fn a_chained_run_records_no_input_that_is_an_alias() -> Result<()> {
    let golden = [("fc", floats(&[9.0])), ("act", floats(&[3.0]))];
    let (dir, checker) = checker(&golden, &[("act<0", "fc")]);
    let written = recorded(dir.path(), checker, || {
        let out = probe("fc").output(floats(&[8.0]))?;
        probe("act").input(0, &out)?;
        probe("act").output(floats(&[4.0]))
    });
    let expected = [("act", [4.0].to_vec()), ("fc", [8.0].to_vec())];
    assert_eq!(
        written,
        expected.map(|(key, value)| (key.to_string(), value)).into()
    );
    Ok(())
}

#[test]
fn recorded_tensors_are_aligned_to_their_elements() -> Result<()> {
    let (dir, checker) = checker(&[("fc", floats(&[1.0]))], &[]);
    let path = dir.path().join("candidate.safetensors");
    let checker = checker.record_to(&path);
    checker.watch(|| -> Result<()> {
        probe("bytes").output(Tensor::new(&[1u8, 2, 3], &Device::Cpu)?)?;
        probe("halves").output(Tensor::zeros(3, DType::F16, &Device::Cpu)?)?;
        probe("fc").output(floats(&[2.0]))?;
        probe("long").output(Tensor::new(&[5i64], &Device::Cpu)?)?;
        Ok(())
    })?;
    checker.finish()?;
    let bytes = std::fs::read(&path)?;
    let (header, metadata) = safetensors::SafeTensors::read_metadata(&bytes)?;
    assert_eq!(header % 8, 0);
    for info in metadata.tensors().values() {
        assert_eq!(info.data_offsets.0 * 8 % info.dtype.bitsize(), 0);
    }
    assert_eq!(metadata.metadata().as_ref().unwrap()["root"], "Net");
    Ok(())
}

#[test]
fn a_failing_run_leaves_what_there_is() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let golden = trace(dir.path(), &[("fc", floats(&[2.0]))], &[]);
    let path = dir.path().join("candidate.safetensors");
    let run = || -> Result<()> {
        let checker = Checker::open(&golden, &Device::Cpu)?.record_to(&path);
        checker.watch(|| -> Result<()> {
            probe("fc").output(floats(&[2.0]))?;
            candle::bail!("no kernel")
        })?;
        checker.finish()?;
        Ok(())
    };
    assert!(run().is_err());
    let written = read_tensors(&path, &Device::Cpu)?;
    assert_eq!(written["fc"].to_vec1::<f32>()?, [2.0]);
    assert_eq!(std::fs::read_dir(dir.path())?.count(), 2);
    Ok(())
}
