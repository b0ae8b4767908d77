//! Elementary functions, in two versions. `Exact` is for f64 tensors. `Fast` is for f32 tensors:
//! it computes in f64 with an error below 1e-9, so that rounding to f32 gives the right number or
//! its neighbour; without branches, so that the compiler can vectorise loops over it, and with
//! fused multiplications, so that it is for CPUs which have them (`kernel::has_fma`).

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, LN_2, LOG2_E};

pub(crate) trait Math {
    fn exp(x: f64) -> f64;
    fn expm1(x: f64) -> f64;
    fn ln(x: f64) -> f64;
    fn ln_1p(x: f64) -> f64;
    fn tanh(x: f64) -> f64;
    fn erf(x: f64) -> f64;
    fn erfc(x: f64) -> f64;
    fn sin(x: f64) -> f64;
    fn cos(x: f64) -> f64;
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
    fn sin(x: f64) -> f64 {
        x.sin()
    }
    fn cos(x: f64) -> f64 {
        x.cos()
    }
}

pub(crate) struct Fast;

impl Math for Fast {
    #[inline(always)]
    fn exp(x: f64) -> f64 {
        let (fraction, scale) = exp_parts(x);
        let y = select(x > EXP_MAX, f64::INFINITY, scale.mul_add(fraction, scale));
        select(x < -EXP_MAX, 0.0, y)
    }

    #[inline(always)]
    fn expm1(x: f64) -> f64 {
        let (fraction, scale) = exp_parts(x);
        let y = scale.mul_add(fraction, scale - 1.0);
        select(x > EXP_MAX, f64::INFINITY, y)
    }

    #[inline(always)]
    fn ln(x: f64) -> f64 {
        // x = 2^k m with m in [√½, √2), and ln m = 2 artanh((m - 1) / (m + 1)).
        let shifted = x.to_bits().wrapping_add(MANTISSA_SHIFT);
        let k = f64::from_bits((shifted >> 52) | TWO_52.to_bits()) - (TWO_52 + 1023.0);
        let m = f64::from_bits((shifted & MANTISSA_MASK).wrapping_add(FRAC_1_SQRT_2.to_bits()));
        let s = (m - 1.0) / (m + 1.0);
        let y = k.mul_add(LN_2, 2.0 * s * horner(&ARTANH, s * s));
        let y = select(x == f64::INFINITY, x, y);
        let y = select(x == 0.0, f64::NEG_INFINITY, y);
        select(x >= 0.0, y, f64::NAN)
    }

    #[inline(always)]
    fn ln_1p(x: f64) -> f64 {
        let u = 1.0 + x;
        // What the sum rounded away; at infinity there is nothing to restore.
        let lost = (x - (u - 1.0)) / u;
        Self::ln(u) + select(lost.abs() < 1.0, lost, 0.0)
    }

    #[inline(always)]
    fn tanh(x: f64) -> f64 {
        let e = Self::expm1(select(x > 20.0, 40.0, 2.0 * x));
        e / (e + 2.0)
    }

    #[inline(always)]
    fn erf(x: f64) -> f64 {
        let near = x * horner(&ERF_NEAR, x * x);
        let far = (1.0 - erfc_far(x.abs())).copysign(x);
        select(x.abs() < 1.0, near, far)
    }

    #[inline(always)]
    fn erfc(x: f64) -> f64 {
        let near = 1.0 - x * horner(&ERF_NEAR, x * x);
        let tail = erfc_far(x.abs());
        select(x.abs() < 1.0, near, select(x < 0.0, 2.0 - tail, tail))
    }

    #[inline(always)]
    fn sin(x: f64) -> f64 {
        let (r, quadrant) = quarter_turns(x);
        quadrant_sin(r, quadrant)
    }

    #[inline(always)]
    fn cos(x: f64) -> f64 {
        let (r, quadrant) = quarter_turns(x);
        quadrant_sin(r, quadrant.wrapping_add(1))
    }
}

/// A choice that is never compiled to a jump, which would keep loops from being vectorised.
#[inline(always)]
fn select(condition: bool, yes: f64, no: f64) -> f64 {
    std::hint::select_unpredictable(condition, yes, no)
}

/// Up to this size the sine and cosine of `Fast` hold.
pub(crate) const TRIGONOMETRIC_MAX: f64 = 1e6;

/// `x` less a multiple of a quarter turn, within an eighth of a turn; and the multiple.
#[inline(always)]
fn quarter_turns(x: f64) -> (f64, u64) {
    // The first part has so few digits that its multiples are exact.
    const PART: f64 = 1.570_796_310_901_641_8;
    const REST: f64 = 1.589_325_477_352_819_4e-8;
    let rounded = x.mul_add(FRAC_2_PI, ROUNDER);
    let k = rounded - ROUNDER;
    (k.mul_add(-REST, k.mul_add(-PART, x)), rounded.to_bits())
}

/// The sine of `r` plus `quadrant` quarter turns.
#[inline(always)]
fn quadrant_sin(r: f64, quadrant: u64) -> f64 {
    let square = r * r;
    let sine = r * horner(&SIN, square);
    let y = select(quadrant & 1 == 0, sine, horner(&COS, square));
    f64::from_bits(y.to_bits() ^ ((quadrant & 2) << 62))
}

/// Beyond this `exp` leaves the range of normal f64 numbers, and that of f32 long before.
const EXP_MAX: f64 = 708.0;
/// Adding it to a small number leaves the number rounded to an integer in the lowest bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
const TWO_52: f64 = 4_503_599_627_370_496.0;
const MANTISSA_MASK: u64 = (1 << 52) - 1;
/// Moves the step between exponents from 1 to √½.
const MANTISSA_SHIFT: u64 = 1f64.to_bits() - FRAC_1_SQRT_2.to_bits();

// The coefficients below interpolate at Chebyshev nodes; in brackets the relative error.

/// `expm1(r) / r` for `|r| <= ln(2) / 2` (3e-10).
const EXP: [f64; 7] = [
    1.0,
    0.5000000047401394,
    0.1666666671931248,
    0.04166635163844457,
    0.008333298344023092,
    0.0013941213100006334,
    0.00019899390183679232,
];

/// `artanh(s) / s` in `s²` for `s <= (√2 - 1) / (√2 + 1)` (4e-12).
const ARTANH: [f64; 5] = [
    1.0000000000041889,
    0.33333332622494327,
    0.2000019259122512,
    0.14267509330575234,
    0.11808494009412521,
];

/// `sin(r) / r` in `r²` for `|r| <= π/4` (5e-12).
const SIN: [f64; 5] = [
    0.9999999999956515,
    -0.16666666631450996,
    0.00833332876883547,
    -0.00019839198092453864,
    2.7173075444014035e-06,
];

/// `cos(r)` in `r²` for `|r| <= π/4` (7e-11).
const COS: [f64; 5] = [
    0.999999999952252,
    -0.4999999961331921,
    0.041666616543016975,
    -0.001388661347837977,
    2.4379412696124163e-05,
];

/// `erf(x) / x` in `x²` for `|x| <= 1` (4e-11).
const ERF_NEAR: [f64; 8] = [
    1.1283791670615435,
    -0.3761263846802871,
    0.11283782495236845,
    -0.026865430727670243,
    0.005221031807858023,
    -0.0008484080405535107,
    0.00011265959025606609,
    -9.667044571486996e-06,
];

/// `erfc(x) exp(x²) / t` in `t = 1 / (x + 2)` for `1 <= x <= 10` (3e-10); beyond, `erfc` vanishes in f32.
const ERFC_FAR: [f64; 10] = [
    0.5641861459949952,
    1.128566590498235,
    1.9703754013631454,
    2.8735145256013332,
    2.3260414562382343,
    0.7120401128626683,
    -4.38091073252943,
    -47.9307293386653,
    110.86264479150137,
    -70.85192385387947,
];

#[inline(always)]
fn horner<const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let mut y = coefficients[N - 1];
    for i in (0..N - 1).rev() {
        y = y.mul_add(x, coefficients[i]);
    }
    y
}

/// `exp(x) = scale * (1 + fraction)`, `scale` a power of two.
#[inline(always)]
fn exp_parts(x: f64) -> (f64, f64) {
    let x = select(x > EXP_MAX, EXP_MAX, x);
    let x = select(x < -EXP_MAX, -EXP_MAX, x);
    let rounded = x.mul_add(LOG2_E, ROUNDER);
    let k = rounded - ROUNDER;
    let r = k.mul_add(-LN_2, x);
    let scale = f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52);
    (r * horner(&EXP, r), scale)
}

/// erfc of `x >= 1`.
#[inline(always)]
fn erfc_far(x: f64) -> f64 {
    let t = 1.0 / (x + 2.0);
    t * horner(&ERFC_FAR, t) * Fast::exp(-x * x)
}
