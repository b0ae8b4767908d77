//! What probes hand on, how calls are named, and what the summary says.

use super::{checker, floats};
use candle::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use torchport_runtime::check;
use torchport_runtime::check::{Mode, Probe};

fn probe(path: &str) -> Probe {
    let vb = VarBuilder::zeros(DType::F32, &Device::Cpu);
    Probe::new(
        &path
            .split('.')
            .filter(|part| !part.is_empty())
            .fold(vb, |vb, part| vb.pp(part)),
    )
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec1().unwrap()
}

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

#[test]
fn without_a_checker_values_pass_through() -> Result<()> {
    let shift = Shift::new("fc", 1.0);
    assert_eq!(values(&shift.forward(&floats(&[1.0]))?), [2.0]);
    let inputs = floats(&[1.0]);
    assert_eq!(probe("fc").input(0, &inputs)?.id(), inputs.id());
    Ok(())
}

#[test]
fn chained_hands_on_what_was_computed() -> Result<()> {
    let golden = [
        ("fc<0", floats(&[10.0])),
        ("fc", floats(&[20.0])),
        ("fc/add", floats(&[20.0])),
    ];
    let (_dir, checker) = checker(&golden, &[]);
    let shift = Shift::new("fc", 1.0);
    let out = checker.watch(|| shift.forward(&floats(&[1.0])))?;
    assert_eq!(values(&out), [2.0]);
    let summary = checker.finish()?;
    assert!(!summary.passed);
    let names: Vec<_> = summary
        .comparisons
        .iter()
        .map(|c| c.name.as_str())
        .collect();
    assert_eq!(names, ["fc<0", "fc/add", "fc"]);
    Ok(())
}

#[test]
fn lock_step_hands_on_the_golden_values() -> Result<()> {
    let golden = [
        ("fc<0", floats(&[10.0])),
        ("fc", floats(&[11.0])),
        ("fd", floats(&[12.0])),
    ];
    let (_dir, checker) = checker(&golden, &[]);
    let checker = checker.mode(Mode::LockStep);
    let (right, wrong) = (Shift::new("fc", 1.0), Shift::new("fd", 5.0));
    let out = checker.watch(|| wrong.forward(&right.forward(&floats(&[1.0]))?))?;
    assert_eq!(values(&out), [12.0]);
    let verdicts: Vec<_> = checker
        .finish()?
        .comparisons
        .into_iter()
        .map(|c| (c.name, c.passed, c.max_abs))
        .collect();
    let expected = [("fc<0", false, 9.0), ("fc", true, 0.0), ("fd", false, 4.0)];
    assert_eq!(
        verdicts,
        expected.map(|(name, passed, error)| (name.to_string(), passed, error))
    );
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
    let (_dir, checker) = checker(&golden, &[]);
    let shift = Shift::new("fc", 1.0);
    checker.watch(|| shift.forward(&shift.forward(&shift.forward(&floats(&[1.0]))?)?))?;
    let summary = checker.finish()?;
    assert!(summary.passed, "{summary:?}");
    assert_eq!(summary.comparisons.len(), 5);
    Ok(())
}

#[test]
fn the_root_module_goes_by_its_class_name_and_tuples_by_number() -> Result<()> {
    let golden = [
        ("Net<0", floats(&[1.0])),
        ("Net<1", floats(&[7.0])),
        ("Net", floats(&[2.0])),
    ];
    let (_dir, checker) = checker(&golden, &[("Net:1", "Net<1")]);
    assert_eq!(checker.root(), "Net");
    let (xs, mask) = (checker.golden("Net<0")?, checker.golden("Net<1")?);
    assert_eq!(values(&checker.golden("Net:1")?), [7.0]);
    checker.watch(|| Shift::new("", 1.0).forward2(&xs, &mask))?;
    let summary = checker.finish()?;
    assert!(summary.passed, "{summary:?}");
    assert_eq!(summary.comparisons.last().unwrap().name, "Net:1");
    Ok(())
}

#[test]
fn an_output_with_no_golden_is_a_failed_result_and_other_keys_are_ignored() -> Result<()> {
    let (_dir, checker) = checker(&[("fc", floats(&[2.0]))], &[]);
    let checker = checker.mode(Mode::LockStep);
    let out = checker.watch(|| {
        Shift::new("fc", 1.0).forward(&floats(&[1.0]))?;
        Shift::new("unknown", 1.0).forward(&floats(&[5.0]))
    })?;
    assert_eq!(values(&out), [6.0]);
    let summary = checker.finish()?;
    assert!(!summary.passed);
    assert_eq!(summary.comparisons.len(), 2);
    assert!(summary.comparisons[1]
        .reason
        .as_ref()
        .unwrap()
        .contains("missing"));
    Ok(())
}

#[test]
fn calls_never_reached_fail_the_summary_unless_they_are_aliases() -> Result<()> {
    let golden = [
        ("fc", floats(&[2.0])),
        ("fd", floats(&[2.5])),
        ("fd:1", floats(&[2.5])),
    ];
    let (_dir, checker) = checker(&golden, &[("dropout", "fc")]);
    checker.watch(|| Shift::new("fc", 1.0).forward(&floats(&[1.0])))?;
    let summary = checker.finish()?;
    assert!(!summary.passed);
    assert_eq!(summary.unvisited, ["fd"]);
    Ok(())
}

#[test]
fn a_run_that_compared_nothing_or_failed_does_not_pass() -> Result<()> {
    let (_dir, nothing) = checker(&[("fc<0", floats(&[2.0]))], &[]);
    assert!(!nothing.finish()?.passed);
    let (_dir, failed) = checker(&[("fc", floats(&[2.0]))], &[]);
    let result = failed.watch(|| -> Result<()> {
        Shift::new("fc", 1.0).forward(&floats(&[1.0]))?;
        candle::bail!("later")
    });
    assert!(result.is_err());
    let summary = failed.finish()?;
    assert!(!summary.passed);
    assert!(summary.error.unwrap().contains("later"));
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
