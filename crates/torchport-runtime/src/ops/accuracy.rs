//! Tests of the elementary functions over the whole range of f32.

use super::math::{Exact, Fast, Math, TRIGONOMETRIC_MAX};

/// Numbers of all sizes and signs, infinities and not a number among them.
fn samples() -> impl Iterator<Item = f32> {
    (0..=u32::MAX).step_by(40_009).map(f32::from_bits)
}

fn distance(a: f32, b: f32) -> i64 {
    let ordered = |v: f32| match v.to_bits() as i32 {
        bits if bits < 0 => i32::MIN as i64 - bits as i64,
        bits => bits as i64,
    };
    match a.is_nan() || b.is_nan() {
        true => (a.is_nan() != b.is_nan()) as i64 * i64::MAX,
        false => (ordered(a) - ordered(b)).abs(),
    }
}

#[test]
fn fast_functions_are_right_or_next_to_right_in_f32() {
    type Function = fn(f64) -> f64;
    let pairs: [(&str, Function, Function); 7] = [
        ("exp", Fast::exp, Exact::exp),
        ("expm1", Fast::expm1, Exact::expm1),
        ("ln", Fast::ln, Exact::ln),
        ("ln_1p", Fast::ln_1p, Exact::ln_1p),
        ("tanh", Fast::tanh, Exact::tanh),
        ("erf", Fast::erf, Exact::erf),
        ("erfc", Fast::erfc, Exact::erfc),
    ];
    for (name, fast, exact) in pairs {
        for x in samples() {
            let (got, want) = (fast(x as f64) as f32, exact(x as f64) as f32);
            assert!(distance(got, want) <= 1, "{name}({x}) = {got}, not {want}");
        }
    }
}

#[test]
fn fast_sine_and_cosine_are_right_or_next_to_right_in_f32() {
    for x in samples().filter(|x| (x.abs() as f64) < TRIGONOMETRIC_MAX) {
        let x = x as f64;
        let (sine, cosine) = (Fast::sin(x) as f32, Fast::cos(x) as f32);
        assert!(distance(sine, x.sin() as f32) <= 1, "sin({x}) = {sine}");
        assert!(distance(cosine, x.cos() as f32) <= 1, "cos({x}) = {cosine}");
    }
}
