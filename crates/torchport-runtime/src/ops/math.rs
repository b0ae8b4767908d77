//! Elementary functions, in two versions. `Exact` is for f64 tensors. `Fast` is for f32 tensors:
//! it computes in f64 with an error below 1e-9, so that rounding to f32 gives the right number or
//! its neighbour, without branches, so that the compiler can vectorise loops over it.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, LOG2_E};

pub(crate) trait Math {
    fn exp(x: f64) -> f64;
    fn expm1(x: f64) -> f64;
    fn ln(x: f64) -> f64;
    fn ln_1p(x: f64) -> f64;
    fn tanh(x: f64) -> f64;
    fn erf(x: f64) -> f64;
    fn erfc(x: f64) -> f64;
}

pub(crate) struct Exact;

impl Math for Exact {
    fn exp(x: f64) -> f64 {
        x.exp()
    }
    fn expm1(x: f64) -> f64 {
        x.exp_m1()
    }
    fn ln(x: f64) -> f64 {
        x.ln()
    }
    fn ln_1p(x: f64) -> f64 {
        x.ln_1p()
    }
    fn tanh(x: f64) -> f64 {
        x.tanh()
    }
    fn erf(x: f64) -> f64 {
        libm::erf(x)
    }
    fn erfc(x: f64) -> f64 {
        libm::erfc(x)
    }
}

pub(crate) struct Fast;

impl Math for Fast {
    #[inline(always)]
    fn exp(x: f64) -> f64 {
        let (fraction, scale) = exp_parts(x);
        let y = scale * fraction + scale;
        let y = if x > EXP_MAX { f64::INFINITY } else { y };
        if x < -EXP_MAX {
            0.0
        } else {
            y
        }
    }

    #[inline(always)]
    fn expm1(x: f64) -> f64 {
        let (fraction, scale) = exp_parts(x);
        let y = scale * fraction + (scale - 1.0);
        if x > EXP_MAX {
            f64::INFINITY
        } else {
            y
        }
    }

    #[inline(always)]
    fn ln(x: f64) -> f64 {
        // x = 2^k m with m in [√½, √2), and ln m = 2 artanh((m - 1) / (m + 1)).
        let shifted = x.to_bits().wrapping_add(MANTISSA_SHIFT);
        let k = f64::from_bits((shifted >> 52) | TWO_52.to_bits()) - (TWO_52 + 1023.0);
        let m = f64::from_bits((shifted & MANTISSA_MASK).wrapping_add(FRAC_1_SQRT_2.to_bits()));
        let s = (m - 1.0) / (m + 1.0);
        let y = k * LN_2 + 2.0 * s * horner(&ARTANH, s * s);
        let y = if x == f64::INFINITY { x } else { y };
        let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
        if x >= 0.0 {
            y
        } else {
            f64::NAN
        }
    }

    #[inline(always)]
    fn ln_1p(x: f64) -> f64 {
        let u = 1.0 + x;
        // The second term restores what the sum rounded away; at infinity there is nothing to restore.
        let lost = (x - (u - 1.0)) / u;
        Self::ln(u) + if lost.abs() < 1.0 { lost } else { 0.0 }
    }

    #[inline(always)]
    fn tanh(x: f64) -> f64 {
        let doubled = 2.0 * x;
        let doubled = if doubled > 40.0 { 40.0 } else { doubled };
        let e = Self::expm1(doubled);
        e / (e + 2.0)
    }

    #[inline(always)]
    fn erf(x: f64) -> f64 {
        let near = x * horner(&ERF_NEAR, x * x);
        let far = (1.0 - erfc_far(x.abs())).copysign(x);
        if x.abs() < 1.0 {
            near
        } else {
            far
        }
    }

    #[inline(always)]
    fn erfc(x: f64) -> f64 {
        let near = 1.0 - x * horner(&ERF_NEAR, x * x);
        let tail = erfc_far(x.abs());
        let far = if x < 0.0 { 2.0 - tail } else { tail };
        if x.abs() < 1.0 {
            near
        } else {
            far
        }
    }
}

/// Beyond this `exp` leaves the range of normal f64 numbers, and that of f32 long before.
const EXP_MAX: f64 = 708.0;
/// Adding it to a small number leaves the number rounded to an integer in the lowest bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
const TWO_52: f64 = 4_503_599_627_370_496.0;
const MANTISSA_MASK: u64 = (1 << 52) - 1;
/// Moves the step between exponents from 1 to √½.
const MANTISSA_SHIFT: u64 = 1f64.to_bits() - FRAC_1_SQRT_2.to_bits();

/// `1/n!` from the first, for `expm1(r) / r`.
const EXP: [f64; 10] = [
    1.0,
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5_040.0,
    1.0 / 40_320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
];

/// `artanh(s) / s` as a series in `s²`.
const ARTANH: [f64; 8] = [
    1.0,
    1.0 / 3.0,
    1.0 / 5.0,
    1.0 / 7.0,
    1.0 / 9.0,
    1.0 / 11.0,
    1.0 / 13.0,
    1.0 / 15.0,
];

/// `erf(x) / x` in `x²` for `|x| <= 1`, interpolated at Chebyshev nodes (relative error 1e-12).
const ERF_NEAR: [f64; 9] = [
    1.1283791670946768,
    -0.3761263888963531,
    0.11283791308604582,
    -0.026866133235095593,
    0.005223783477189248,
    -0.0008542637997087229,
    0.0001195656256820733,
    -1.3909340021874599e-05,
    1.058938064107502e-06,
];

/// `erfc(x) exp(x²) / t` in `t = 1 / (x + 2)` for `x >= 1`, likewise (relative error 7e-10).
const ERFC_FAR: [f64; 10] = [
    0.564189677621214,
    1.1283689323678336,
    1.9751356378523113,
    2.808779418597231,
    2.874100272482085,
    -2.2863722351184834,
    6.233825728340565,
    -71.41475716168918,
    140.37650404265997,
    -86.93346330678456,
];

#[inline(always)]
fn horner<const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let mut y = coefficients[N - 1];
    for i in (0..N - 1).rev() {
        y = y * x + coefficients[i];
    }
    y
}

/// `exp(x) = scale * (1 + fraction)`, `scale` a power of two.
#[inline(always)]
fn exp_parts(x: f64) -> (f64, f64) {
    let x = if x > EXP_MAX { EXP_MAX } else { x };
    let x = if x < -EXP_MAX { -EXP_MAX } else { x };
    let rounded = x * LOG2_E + ROUNDER;
    let k = rounded - ROUNDER;
    let r = x - k * LN_2;
    let scale = f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52);
    (r * horner(&EXP, r), scale)
}

/// erfc of `x >= 1`.
#[inline(always)]
fn erfc_far(x: f64) -> f64 {
    let t = 1.0 / (x + 2.0);
    t * horner(&ERFC_FAR, t) * Fast::exp(-x * x)
}
