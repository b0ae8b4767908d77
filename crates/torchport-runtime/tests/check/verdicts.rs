//! When a comparison passes, and what it says when it does not.

use super::{checker, floats};
use candle::{DType, Device, Tensor};
use torchport_runtime::check::{CheckError, Comparison};

fn compare(golden: Tensor, candidate: &Tensor) -> Comparison {
    let (_dir, checker) = checker(&[("fc", golden)], &[]);
    let checker = checker.tolerance(1e-4, 1e-5);
    checker.verify("fc", candidate).unwrap()
}

#[test]
fn equal_tensors_pass_with_zero_error() {
    let values = floats(&[1.0, -2.0, 3.0]);
    let result = compare(values.clone(), &values);
    assert!(result.passed, "{result:?}");
    assert_eq!(
        (result.mse, result.max_abs, result.mean_abs),
        (0.0, 0.0, 0.0)
    );
    assert!((result.cosine - 1.0).abs() < 1e-12);
}

#[test]
fn metrics_are_those_of_the_definition() {
    let result = compare(
        Tensor::new(&[[3f32, 0.0], [4.0, 0.0]], &Device::Cpu).unwrap(),
        &Tensor::new(&[[3f32, 0.0], [4.0, 2.0]], &Device::Cpu).unwrap(),
    );
    assert!(!result.passed);
    assert_eq!(
        (result.mse, result.max_abs, result.mean_abs),
        (1.0, 2.0, 0.5)
    );
    assert!((result.cosine - 25.0 / (5.0 * 29f64.sqrt())).abs() < 1e-12);
    assert_eq!(result.worst_index, Some(vec![1, 1]));
}

#[test]
fn worst_index_is_found_in_a_later_chunk() {
    let golden = Tensor::zeros((3, 70_000), DType::F32, &Device::Cpu).unwrap();
    let mut values = vec![0f32; 3 * 70_000];
    values[2 * 70_000 + 12_345] = 1.0;
    let result = compare(
        golden,
        &Tensor::from_vec(values, (3, 70_000), &Device::Cpu).unwrap(),
    );
    assert_eq!(result.worst_index, Some(vec![2, 12_345]));
}

#[test]
fn nan_on_one_side_never_passes() {
    let (clean, nan) = (floats(&[1.0, 2.0]), floats(&[1.0, f32::NAN]));
    for (golden, candidate) in [(&clean, &nan), (&nan, &clean)] {
        let (_dir, checker) = checker(&[("fc", golden.clone())], &[]);
        let checker = checker.tolerance(f64::INFINITY, f64::INFINITY);
        let result = checker.verify("fc", candidate).unwrap();
        assert!(!result.passed);
        assert!(result.max_abs.is_infinite());
        assert_eq!(result.worst_index, Some(vec![1]));
        assert!(result.reason.unwrap().contains("NaN"));
    }
}

#[test]
fn nan_and_infinities_pass_only_at_the_same_places() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let golden = floats(&[nan, 1.0, -inf, inf]);
    assert!(compare(golden.clone(), &golden).passed);
    assert!(!compare(golden.clone(), &floats(&[1.0, nan, -inf, inf])).passed);
    assert!(!compare(golden, &floats(&[nan, 1.0, inf, inf])).passed);
}

#[test]
fn all_nan_on_one_side_never_passes() {
    assert!(!compare(floats(&[f32::NAN; 4]), &floats(&[0.0; 4])).passed);
}

#[test]
fn another_shape_fails_even_with_the_same_values() {
    let golden = floats(&[1.0, 2.0]);
    let result = compare(golden.clone(), &golden.reshape((1, 2)).unwrap());
    assert!(!result.passed);
    assert_eq!(
        (result.golden_shape, result.candidate_shape),
        (vec![2], vec![1, 2])
    );
    assert!(result.reason.unwrap().contains("shape"));
}

#[test]
fn empty_passes_against_empty_only() {
    let empty = Tensor::zeros((0, 3), DType::F32, &Device::Cpu).unwrap();
    let result = compare(empty.clone(), &empty);
    assert!(result.passed);
    assert_eq!(result.worst_index, None);
    assert!(!compare(empty.clone(), &empty.reshape((3, 0)).unwrap()).passed);
    assert!(!compare(floats(&[]), &floats(&[0.0])).passed);
}

#[test]
fn missing_key_is_an_error() {
    let (_dir, checker) = checker(&[("fc", floats(&[1.0]))], &[]);
    let error = checker.verify("fd", &floats(&[1.0])).unwrap_err();
    assert!(matches!(error, CheckError::MissingKey { key, .. } if key == "fd"));
}

#[test]
fn integers_are_compared_exactly_beyond_float_precision() {
    let big = 1i64 << 60;
    let golden = Tensor::new(&[1i64 << 40, big], &Device::Cpu).unwrap();
    assert!(compare(golden.clone(), &golden).passed);
    let off_by_one = Tensor::new(&[(1i64 << 40) + 1, big], &Device::Cpu).unwrap();
    assert!(!compare(golden.clone(), &off_by_one).passed);
    let off_beyond_f64 = Tensor::new(&[1i64 << 40, big + 1], &Device::Cpu).unwrap();
    assert!(!compare(golden, &off_beyond_f64).passed);
}

#[test]
fn integers_do_not_pass_for_floats() {
    let golden = Tensor::new(&[1i64, 2], &Device::Cpu).unwrap();
    let result = compare(golden, &floats(&[1.0, 2.0]));
    assert!(!result.passed);
    assert!(result.reason.unwrap().contains("dtype"));
}

#[test]
fn a_tolerance_is_relative_to_each_element_and_includes_its_edge() {
    let judge = |golden: &[f32], candidate: &[f32], rtol, atol| {
        let (_dir, checker) = checker(&[("fc", floats(golden))], &[]);
        let checker = checker.tolerance(rtol, atol);
        checker.verify("fc", &floats(candidate)).unwrap()
    };
    assert!(judge(&[1000.0, 0.0], &[1001.0, 0.0], 1e-3, 0.0).passed);
    assert!(judge(&[0.0], &[0.5], 0.0, 0.5).passed);
    assert!(!judge(&[0.0], &[0.5], 0.0, 0.499).passed);
    let failed = judge(&[1000.0, 0.0, 1.0], &[1000.0, 0.5, 1.0], 1e-3, 0.0);
    assert!(!failed.passed);
    assert!(failed.reason.unwrap().starts_with("1 of 3 elements"));
}

#[test]
fn nothing_passes_on_a_tolerance_that_is_nan() {
    for (rtol, atol) in [(f64::NAN, 0.0), (0.0, f64::NAN)] {
        let (_dir, checker) = checker(&[("fc", floats(&[1.0]))], &[]);
        let checker = checker.tolerance(rtol, atol);
        assert!(!checker.verify("fc", &floats(&[2.0])).unwrap().passed);
    }
}

#[test]
fn other_floating_dtypes_are_compared_by_value() {
    let golden = floats(&[1.0]);
    for dtype in [DType::BF16, DType::F16, DType::F64, DType::F8E4M3] {
        let candidate = golden.to_dtype(dtype).unwrap();
        assert!(compare(golden.clone(), &candidate).passed);
        let other = floats(&[2.0]).to_dtype(dtype).unwrap();
        assert_eq!(compare(golden.clone(), &other).max_abs, 1.0);
    }
}

#[test]
fn non_contiguous_candidates_are_compared_by_position() {
    let golden = Tensor::arange(0f32, 6.0, &Device::Cpu)
        .unwrap()
        .reshape((2, 3))
        .unwrap();
    let candidate = golden.t().unwrap().contiguous().unwrap().t().unwrap();
    assert!(compare(golden, &candidate).passed);
}

#[test]
fn scalars_compare() {
    let golden = Tensor::new(1f32, &Device::Cpu).unwrap();
    assert_eq!(compare(golden.clone(), &golden).worst_index, Some(vec![]));
}
