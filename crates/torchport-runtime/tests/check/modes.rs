//! What probes hand on, how calls are named, and what is recorded under which name.

use super::{checker, floats, probe, recorded, values};
use candle::{DType, Result, Tensor};
use std::collections::BTreeMap;
use torchport_runtime::check;
use torchport_runtime::check::{Mode, Probe};

/// Adds its weight to its input, as a layer does.
struct Shift {
    probe: Probe,
    by: f64,
}

impl Shift {
    fn new(path: &str, by: f64) -> Self {
        let probe = probe(path);
        Self { probe, by }
    }

    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        check!(self.probe => xs);
        let xs = check!(self.probe, "add", (xs + self.by)?)?;
        check!(self.probe, xs)
    }

    fn forward2(&self, xs: &Tensor, mask: &Tensor) -> Result<(Tensor, Tensor)> {
        check!(self.probe => xs, mask);
        check!(self.probe, ((xs + self.by)?, mask.clone()))
    }
}

fn named(expected: &[(&str, f32)]) -> BTreeMap<String, Vec<f32>> {
    expected
        .iter()
        .map(|(key, value)| (key.to_string(), vec![*value]))
        .collect()
}

#[test]
fn without_a_checker_values_pass_through() -> Result<()> {
    let shift = Shift::new("fc", 1.0);
    assert_eq!(values(&shift.forward(&floats(&[1.0]))?), [2.0]);
    let inputs = floats(&[1.0]);
    assert_eq!(probe("fc").input(0, &inputs)?.id(), inputs.id());
    Ok(())
}

#[test]
fn chained_hands_on_and_records_what_was_computed() -> Result<()> {
    let golden = [
        ("fc<0", floats(&[10.0])),
        ("fc", floats(&[20.0])),
        ("fc/add", floats(&[20.0])),
    ];
    let (dir, checker) = checker(&golden, &[]);
    let shift = Shift::new("fc", 1.0);
    let written = recorded(dir.path(), checker, || {
        let out = shift.forward(&floats(&[1.0]))?;
        assert_eq!(values(&out), [2.0]);
        Ok(())
    });
    let expected = [("fc<0", 1.0), ("fc/add", 2.0), ("fc", 2.0)];
    assert_eq!(written, named(&expected));
    Ok(())
}

#[test]
fn lock_step_hands_on_the_golden_values_and_records_the_computed_ones() -> Result<()> {
    let golden = [
        ("fc<0", floats(&[10.0])),
        ("fc", floats(&[11.0])),
        ("fd", floats(&[12.0])),
    ];
    let (dir, checker) = checker(&golden, &[]);
    let (right, wrong) = (Shift::new("fc", 1.0), Shift::new("fd", 5.0));
    let written = recorded(dir.path(), checker.mode(Mode::LockStep), || {
        let out = wrong.forward(&right.forward(&floats(&[1.0]))?)?;
        assert_eq!(values(&out), [12.0]);
        Ok(())
    });
    let expected = [("fc<0", 1.0), ("fc", 11.0), ("fd", 16.0)];
    assert_eq!(written, named(&expected));
    Ok(())
}

#[test]
fn lock_step_hands_on_the_golden_value_of_an_operation() -> Result<()> {
    let golden = [("fc/add", floats(&[7.0])), ("fc", floats(&[7.0]))];
    let (dir, checker) = checker(&golden, &[]);
    let written = recorded(dir.path(), checker.mode(Mode::LockStep), || {
        Shift::new("fc", 1.0).forward(&floats(&[1.0]))
    });
    assert_eq!(written, named(&[("fc/add", 2.0), ("fc", 7.0)]));
    Ok(())
}

#[test]
fn lock_step_keeps_the_dtype_of_a_half_precision_port() -> Result<()> {
    let (_dir, checker) = checker(&[("fc", floats(&[2.0]))], &[]);
    let checker = checker.mode(Mode::LockStep);
    let out =
        checker.watch(|| Shift::new("fc", 1.0).forward(&floats(&[1.0]).to_dtype(DType::BF16)?))?;
    assert_eq!(out.dtype(), DType::BF16);
    Ok(())
}

#[test]
fn later_calls_of_a_module_are_counted() -> Result<()> {
    let golden = [
        ("fc<0", floats(&[1.0])),
        ("fc", floats(&[2.0])),
        ("fc#1<0", floats(&[2.0])),
        ("fc#1", floats(&[3.0])),
        ("fc#2", floats(&[4.0])),
    ];
    let (dir, checker) = checker(&golden, &[]);
    let shift = Shift::new("fc", 1.0);
    let written = recorded(dir.path(), checker, || {
        shift.forward(&shift.forward(&shift.forward(&floats(&[1.0]))?)?)
    });
    let golden = golden.map(|(key, tensor)| (key, values(&tensor)[0]));
    assert_eq!(written, named(&golden));
    Ok(())
}

#[test]
fn the_root_module_goes_by_its_class_name_and_tuples_by_number() -> Result<()> {
    let golden = [
        ("Net<0", floats(&[1.0])),
        ("Net<1", floats(&[7.0])),
        ("Net", floats(&[2.0])),
    ];
    let (dir, checker) = checker(&golden, &[("Net:1", "Net<1")]);
    assert_eq!(checker.root(), "Net");
    let (xs, mask) = (checker.golden("Net<0")?, checker.golden("Net<1")?);
    assert_eq!(values(&checker.golden("Net:1")?), [7.0]);
    let written = recorded(dir.path(), checker, || {
        Shift::new("", 1.0).forward2(&xs, &mask)
    });
    let expected = [("Net<0", 1.0), ("Net<1", 7.0), ("Net", 2.0), ("Net:1", 7.0)];
    assert_eq!(written, named(&expected));
    Ok(())
}

#[test]
fn an_output_with_no_golden_is_recorded_and_handed_on_and_other_keys_are_ignored() -> Result<()> {
    let (dir, checker) = checker(&[("fc", floats(&[2.0]))], &[]);
    let written = recorded(dir.path(), checker.mode(Mode::LockStep), || {
        Shift::new("fc", 1.0).forward(&floats(&[1.0]))?;
        let out = Shift::new("unknown", 1.0).forward(&floats(&[5.0]))?;
        assert_eq!(values(&out), [6.0]);
        Ok(())
    });
    assert_eq!(written, named(&[("fc", 2.0), ("unknown", 6.0)]));
    Ok(())
}

#[test]
fn nobody_watches_after_a_run_even_one_that_failed() -> Result<()> {
    let (_dir, checker) = checker(&[("fc", floats(&[9.0]))], &[]);
    let checker = checker.mode(Mode::LockStep);
    let _ = checker.watch(|| -> Result<()> { candle::bail!("stop") });
    assert_eq!(
        values(&Shift::new("fc", 1.0).forward(&floats(&[1.0]))?),
        [2.0]
    );
    Ok(())
}

#[test]
fn a_layer_may_have_many_inputs() -> Result<()> {
    let (_dir, checker) = checker(&[("cat", floats(&[1.0])), ("cat<19", floats(&[9.0]))], &[]);
    let checker = checker.mode(Mode::LockStep);
    let probe = probe("cat");
    let given = floats(&[1.0]);
    let last = checker.watch(|| -> Result<Tensor> {
        let [t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13, t14, t15, t16, t17, t18, t19] = [&given; 20];
        check!(probe => t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13, t14, t15, t16, t17, t18, t19);
        for handed_on in [t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13, t14, t15, t16, t17, t18] {
            assert_eq!(values(handed_on), [1.0]);
        }
        Ok(t19.clone())
    })?;
    assert_eq!(values(&last), [9.0]);
    Ok(())
}
