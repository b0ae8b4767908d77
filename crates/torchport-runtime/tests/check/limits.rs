//! What `verify` judges by when its caller gives no tolerance: the limits that the trace carries.

use super::{floats, json, trace_with};
use candle::{Device, Tensor};
use std::collections::HashMap;
use torchport_runtime::check::{CheckError, Checker};

/// A checker of a trace with the limits given, in which `dropout` is an alias of `fc`.
fn checker(tensors: &[(&str, Tensor)], limits: &[(&str, f64)]) -> (tempfile::TempDir, Checker) {
    let dir = tempfile::tempdir().unwrap();
    let limits: HashMap<_, _> = limits.iter().copied().collect();
    let aliases = HashMap::from([("act<0", "dropout"), ("dropout", "fc")]);
    let metadata = [("limits", json(&limits)), ("aliases", json(&aliases))];
    let metadata = metadata
        .each_ref()
        .map(|(entry, text)| (*entry, text.as_str()));
    trace_with(dir.path(), tensors, &metadata);
    let checker = Checker::load("net", dir.path(), &Device::Cpu).unwrap();
    (dir, checker)
}

#[test]
fn a_floating_tensor_is_judged_by_its_limit_including_the_edge() {
    let golden = [("fc", floats(&[1000.0, 0.0]))];
    let (_dir, checker) = checker(&golden, &[("fc", 0.25)]);
    let passes = |values| checker.verify("fc", &floats(values)).unwrap().passed;
    assert!(passes(&[1000.25, -0.25]));
    assert!(!passes(&[1000.0, 0.26]));
    assert!(!passes(&[1000.5, 0.0]));
    assert!(!passes(&[1000.0, f32::NAN]));
}

#[test]
fn a_limit_is_found_through_aliases_and_an_own_one_comes_first() {
    let golden = [("fc", floats(&[1.0]))];
    let (_dir, by_alias) = checker(&golden, &[("fc", 0.5)]);
    for (value, expected) in [(1.5, true), (1.75, false)] {
        let found = by_alias.verify("act<0", &floats(&[value])).unwrap();
        assert_eq!(found.passed, expected);
    }
    let (_dir, own) = checker(&golden, &[("fc", 0.5), ("act<0", 0.0)]);
    assert!(!own.verify("act<0", &floats(&[1.5])).unwrap().passed);
}

#[test]
fn a_tolerance_of_the_caller_is_used_instead_of_the_limit() {
    let golden = [("fc", floats(&[1.0]))];
    let (_dir, strict) = checker(&golden, &[("fc", 1.0)]);
    let strict = strict.tolerance(0.0, 0.1);
    assert!(!strict.verify("fc", &floats(&[1.5])).unwrap().passed);
    let (_dir, lax) = checker(&golden, &[("fc", 0.0)]);
    let lax = lax.tolerance(0.0, 1.0);
    assert!(lax.verify("fc", &floats(&[1.5])).unwrap().passed);
}

#[test]
fn without_a_limit_or_a_tolerance_there_is_an_error_that_says_what_to_do() {
    let golden = [("fc", floats(&[1.0])), ("fd", floats(&[1.0]))];
    let (_dir, checker) = checker(&golden, &[("fc", 0.5)]);
    let error = checker.verify("fd", &floats(&[1.0])).unwrap_err();
    assert!(matches!(&error, CheckError::NoLimit { key, .. } if key == "fd"));
    let text = error.to_string();
    for part in [
        "net_trace.safetensors",
        "`fd`",
        ".tolerance(rtol, atol)",
        "record the model again",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn what_no_limit_could_make_pass_is_judged_without_one() {
    let ints = Tensor::new(&[1i64, 2], &Device::Cpu).unwrap();
    let empty = Tensor::new(&[] as &[f32], &Device::Cpu).unwrap();
    let golden = [
        ("ids", ints.clone()),
        ("none", empty.clone()),
        ("fc", floats(&[1.0])),
    ];
    let (_dir, checker) = checker(&golden, &[]);
    assert!(checker.verify("ids", &ints).unwrap().passed);
    let others = Tensor::new(&[1i64, 3], &Device::Cpu).unwrap();
    assert!(!checker.verify("ids", &others).unwrap().passed);
    assert!(checker.verify("none", &empty).unwrap().passed);
    let shape = checker.verify("fc", &floats(&[1.0, 1.0])).unwrap();
    assert!(shape.reason.unwrap().contains("shape"));
    let dtype = checker
        .verify("fc", &Tensor::new(&[1i64], &Device::Cpu).unwrap())
        .unwrap();
    assert!(dtype.reason.unwrap().contains("dtype"));
}
