//! Functions of `torch.special`: gamma, error and Bessel functions. Computed in f64 for all dtypes.

use super::kernel::zip;
use super::unary::map_float;
use super::{float_pair, to_dtype};
use candle::{bail, DType, Result, Tensor};
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, PI, SQRT_2};

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident, $function:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(x: &Tensor) -> Result<Tensor> {
            map_float(stringify!($name), x, $function, $function)
        }
    )*};
}

functions! {
    erfinv, inverse_erf;
    /// `exp(x²) · erfc(x)`.
    erfcx, scaled_erfc;
    /// The logarithm of `|Γ(x)|`.
    lgamma, log_gamma;
    digamma, psi;
    /// Modified Bessel functions of the first kind, of order 0 and 1; `e` for those times `exp(-|x|)`.
    i0, |x| bessel_i(0, x, false);
    i0e, |x| bessel_i(0, x, true);
    i1, |x| bessel_i(1, x, false);
    i1e, |x| bessel_i(1, x, true);
    bessel_j0, libm::j0;
    bessel_j1, libm::j1;
    bessel_y0, libm::y0;
    /// Modified Bessel functions of the second kind, of order 0 and 1; `scaled` for those times `exp(x)`.
    bessel_k0, |x| bessel_k(0.0, x) * (-x).exp();
    bessel_k1, |x| bessel_k(1.0, x) * (-x).exp();
    scaled_bessel_k0, |x| bessel_k(0.0, x);
    scaled_bessel_k1, |x| bessel_k(1.0, x);
    spherical_bessel_j0, |x| if x.is_infinite() { 0.0 } else if x.abs() < 1e-8 { 1.0 } else { x.sin() / x };
    /// The quantile function of the normal distribution.
    ndtri, normal_quantile;
    /// `ln` of the normal distribution function.
    log_ndtr, log_normal;
}

fn log_gamma(x: f64) -> f64 {
    if x.is_infinite() {
        f64::INFINITY
    } else {
        libm::lgamma(x)
    }
}

fn psi(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x < 0.0 {
        if x == x.trunc() {
            return f64::NAN;
        }
        // The tangent of the fraction only, which is exact for large arguments.
        return psi(1.0 - x) - PI / (PI * x.fract()).tan();
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < 12.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = [
        1.0 / 12.0,
        -1.0 / 120.0,
        1.0 / 252.0,
        -1.0 / 240.0,
        1.0 / 132.0,
        -691.0 / 32760.0,
        1.0 / 12.0,
    ];
    let tail = series.iter().rev().fold(0.0, |tail, c| (tail + c) * square);
    sum + x.ln() - 0.5 / x - tail
}

/// The `y` with `erfc(y) = q`, for small positive `q`: Newton's method on logarithms.
fn inverse_erfc_tail(q: f64) -> f64 {
    let mut y = (-q.ln()).sqrt();
    for _ in 0..40 {
        let tail = libm::erfc(y);
        if tail == 0.0 {
            y -= 0.1;
            continue;
        }
        let step = (tail.ln() - q.ln()) * tail / (FRAC_2_SQRT_PI * (-y * y).exp());
        y += step;
        if step.abs() <= f64::EPSILON * y {
            break;
        }
    }
    y
}

fn inverse_erf(x: f64) -> f64 {
    if x.abs() == 1.0 {
        return f64::INFINITY.copysign(x);
    }
    if x.is_nan() || x.abs() > 1.0 {
        return f64::NAN;
    }
    if x.abs() > 0.5 {
        return inverse_erfc_tail(1.0 - x.abs()).copysign(x);
    }
    let mut y = x / FRAC_2_SQRT_PI;
    for _ in 0..6 {
        y -= (libm::erf(y) - x) / (FRAC_2_SQRT_PI * (-y * y).exp());
    }
    y
}

fn normal_quantile(p: f64) -> f64 {
    if p < 0.25 {
        match p {
            0.0 => f64::NEG_INFINITY,
            p if p > 0.0 => -SQRT_2 * inverse_erfc_tail(2.0 * p),
            _ => f64::NAN,
        }
    } else {
        SQRT_2 * inverse_erf(2.0 * p - 1.0)
    }
}

fn log_normal(x: f64) -> f64 {
    let t = x * std::f64::consts::FRAC_1_SQRT_2;
    if x < -1.0 {
        (scaled_erfc(-t) / 2.0).ln() - t * t
    } else {
        (-libm::erfc(t) / 2.0).ln_1p()
    }
}

fn scaled_erfc(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 * (x * x).exp() - scaled_erfc(-x);
    }
    if x < 2.0 {
        return (x * x).exp() * libm::erfc(x);
    }
    if x.is_infinite() {
        return 0.0;
    }
    // The continued fraction of erfc, from its end.
    let fraction = (1..=120).rev().fold(x, |rest, k| x + 0.5 * k as f64 / rest);
    1.0 / (fraction * PI.sqrt())
}

/// I of order 0 or 1: its power series, which has no cancellation, or the asymptotic one.
fn bessel_i(order: i32, x: f64, scaled: bool) -> f64 {
    let size = x.abs();
    let sign = if order == 1 && x < 0.0 { -1.0 } else { 1.0 };
    if size.is_infinite() {
        return if scaled { 0.0 } else { f64::NAN };
    }
    if size < 40.0 {
        let square = size * size / 4.0;
        let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
        while term > f64::EPSILON / 8.0 * sum {
            term *= square / (k * (k + order as f64));
            sum += term;
            k += 1.0;
        }
        let sum = if order == 1 { sum * size / 2.0 } else { sum };
        return sign * if scaled { sum * (-size).exp() } else { sum };
    }
    let mu = 4.0 * (order * order) as f64;
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..40 {
        let odd = (2 * k - 1) as f64;
        term *= -(mu - odd * odd) / (8.0 * size * k as f64);
        sum += term;
        if term.abs() < f64::EPSILON / 8.0 {
            break;
        }
    }
    let root = sum / (2.0 * PI * size).sqrt();
    // In two steps, because exp(x) leaves the range of numbers before the product does.
    let half = (size / 2.0).exp();
    sign * if scaled { root } else { root * half * half }
}

/// `exp(x) · K(x)`, by the trapezoidal rule on its integral, which converges as fast as can be.
fn bessel_k(order: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return if x == 0.0 { f64::INFINITY } else { f64::NAN };
    }
    if x.is_infinite() {
        return 0.0;
    }
    const STEP: f64 = 1.0 / 16.0;
    let mut sum = 0.5;
    for i in 1..2000 {
        let t = i as f64 * STEP;
        let half = (t / 2.0).sinh();
        // cosh(t) - 1 without cancellation.
        let term = (-x * 2.0 * half * half).exp() * (order * t).cosh();
        sum += term;
        if term < f64::EPSILON / 64.0 * sum {
            break;
        }
    }
    sum * STEP
}

/// The derivative of order `n` of `digamma`.
pub fn polygamma(n: usize, x: &Tensor) -> Result<Tensor> {
    if n == 0 {
        return digamma(x);
    }
    let factor = (1..=n).fold(if n.is_multiple_of(2) { -1.0 } else { 1.0 }, |f, k| {
        f * k as f64
    });
    let order = n as f64 + 1.0;
    let at = move |x: f64| match n {
        1 if x < 0.5 => trigamma(x),
        _ => factor * hurwitz_zeta(order, x),
    };
    map_float("polygamma", x, at, at)
}

fn trigamma(x: f64) -> f64 {
    if x < 0.5 {
        let sine = (PI * x).sin();
        return -trigamma(1.0 - x) + PI * PI / (sine * sine);
    }
    hurwitz_zeta(2.0, x)
}

/// The sum of `(q + k)^-x` over all `k` from 0 on.
fn hurwitz_zeta(x: f64, q: f64) -> f64 {
    const FACTORS: [f64; 12] = [
        12.0,
        -720.0,
        30240.0,
        -1209600.0,
        47900160.0,
        -1892437580.3183792,
        7.47242496e10,
        -2950130727918.164,
        116467828143500.67,
        -4597978722407473.0,
        1.8152105401943546e17,
        -7.166165256175667e18,
    ];
    if x == 1.0 {
        return f64::INFINITY;
    }
    if x.is_nan() || q.is_nan() || x < 1.0 {
        return f64::NAN;
    }
    if q <= 0.0 {
        if q == q.floor() {
            return f64::INFINITY;
        }
        if x != x.floor() {
            return f64::NAN;
        }
    }
    let (mut a, mut i) = (q, 0);
    let mut sum = q.powf(-x);
    let mut last = 0.0;
    while i < 9 || a <= 9.0 {
        i += 1;
        a += 1.0;
        last = a.powf(-x);
        sum += last;
        if last.abs() < f64::EPSILON / 2.0 * sum.abs() {
            return sum;
        }
    }
    sum += last * a / (x - 1.0) - 0.5 * last;
    let (mut factor, mut k) = (1.0, 0.0);
    for divisor in FACTORS {
        factor *= x + k;
        last /= a;
        let term = factor * last / divisor;
        sum += term;
        if (term / sum).abs() < f64::EPSILON / 2.0 {
            break;
        }
        factor *= x + k + 1.0;
        last /= a;
        k += 2.0;
    }
    sum
}

/// The Hurwitz zeta function.
pub fn zeta(x: &Tensor, q: &Tensor) -> Result<Tensor> {
    float_pair("zeta", x, q, hurwitz_zeta)
}

/// The regularised lower incomplete gamma function.
pub fn igamma(a: &Tensor, x: &Tensor) -> Result<Tensor> {
    float_pair("igamma", a, x, |a, x| gamma_parts(a, x).0)
}

/// The regularised upper incomplete gamma function.
pub fn igammac(a: &Tensor, x: &Tensor) -> Result<Tensor> {
    float_pair("igammac", a, x, |a, x| gamma_parts(a, x).1)
}

/// The parts of Γ(a) below and above `x`, as shares of the whole.
fn gamma_parts(a: f64, x: f64) -> (f64, f64) {
    if a.is_nan() || x.is_nan() || a < 0.0 || x < 0.0 || (a == 0.0 && x == 0.0) {
        return (f64::NAN, f64::NAN);
    }
    if a == 0.0 || (x.is_infinite() && a.is_finite()) {
        return (1.0, 0.0);
    }
    if a.is_infinite() {
        return if x.is_infinite() {
            (f64::NAN, f64::NAN)
        } else {
            (0.0, 1.0)
        };
    }
    if x == 0.0 {
        return (0.0, 1.0);
    }
    let scale = (a * x.ln() - x - libm::lgamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        for _ in 0..100_000 {
            n += 1.0;
            term *= x / n;
            sum += term;
            if term < sum * f64::EPSILON / 4.0 {
                break;
            }
        }
        let below = scale * sum;
        return (below, 1.0 - below);
    }
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / TINY, 1.0 / b);
    let mut fraction = d;
    for i in 1..100_000 {
        let n = -(i as f64) * (i as f64 - a);
        b += 2.0;
        d = n * d + b;
        c = b + n / c;
        d = 1.0 / if d.abs() < TINY { TINY } else { d };
        c = if c.abs() < TINY { TINY } else { c };
        fraction *= d * c;
        if (d * c - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    let above = scale * fraction;
    (1.0 - above, above)
}

/// `ln(exp(a) + exp(b))`.
pub fn logaddexp(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    float_pair("logaddexp", a, b, super::running::add_exponents)
}

/// `log2(2^a + 2^b)`.
pub fn logaddexp2(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let sum = |a: f64, b: f64| super::running::add_exponents(a * LN_2, b * LN_2) / LN_2;
    float_pair("logaddexp2", a, b, sum)
}

/// `a · ln(b)`, which is 0 where `a` is, unless `b` is not a number.
pub fn xlogy(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    float_pair("xlogy", a, b, |a, b| {
        if a == 0.0 && !b.is_nan() {
            0.0
        } else {
            a * b.ln()
        }
    })
}

/// `a · ln(1 + b)`, which is 0 where `a` is, unless `b` is not a number.
pub fn xlog1py(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    float_pair("xlog1py", a, b, |a, b| {
        if a == 0.0 && !b.is_nan() {
            0.0
        } else {
            a * b.ln_1p()
        }
    })
}

/// 1 above zero, the value of `b` at zero, and else 0.
pub fn heaviside(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let int = |a: i64, b: i64| match a.signum() {
        0 => b,
        sign => sign.max(0),
    };
    let float = |a: f64, b: f64| {
        if a == 0.0 {
            b
        } else {
            (a > 0.0) as u8 as f64
        }
    };
    super::pairs::zip_wide("heaviside", a, b, float, Some(int))
}

/// The next number after `a` in the direction of `b`.
pub fn nextafter(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match (a.dtype(), b.dtype()) {
        (DType::F32, DType::F32) => zip(a, b, |a: f32, b: f32| libm::nextafterf(a, b)),
        (DType::F64, DType::F64) => zip(a, b, |a: f64, b: f64| libm::nextafter(a, b)),
        (dtype, _) => bail!("nextafter: dtype {} is not supported", dtype.as_str()),
    }
}

fn divisor(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.wrapping_abs(), b.wrapping_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The greatest common divisor.
pub fn gcd(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    super::pairs::zip_wide("gcd", a, b, |_, _| f64::NAN, Some(divisor))
}

/// The least common multiple.
pub fn lcm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let multiple = |a: i64, b: i64| match divisor(a, b) {
        0 => 0,
        common => (a / common).wrapping_mul(b).wrapping_abs(),
    };
    super::pairs::zip_wide("lcm", a, b, |_, _| f64::NAN, Some(multiple))
}

/// Fraction (at least a half) and exponent (i32) of each element.
pub fn frexp(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let wide = to_dtype(x, DType::F64)?;
    let fraction = super::kernel::map(&wide, |v: f64| libm::frexp(v).0)?;
    let exponent = super::kernel::map(&wide, |v: f64| match v.is_finite() {
        true => libm::frexp(v).1,
        false => 0,
    })?;
    Ok((to_dtype(&fraction, x.dtype())?, exponent))
}
