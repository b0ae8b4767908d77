//! Complex numbers as pairs: a complex tensor is one of floats whose last dimension has the real and the
//! imaginary parts. Shapes and dimensions below count that dimension, too.

use super::kernel::broadcast_shape;
use super::real::{for_real, real_dtype, tensor_like, with_values, Real};
use super::{add, matmul, mul, neg, sub, to_dtype};
use candle::{bail, DType, Result, Tensor};

type Pair = [f64; 2];

/// A complex tensor of its parts.
pub fn complex(real: &Tensor, imaginary: &Tensor) -> Result<Tensor> {
    let shape = broadcast_shape(real.dims(), imaginary.dims())?;
    let (real, imaginary) = (
        real.broadcast_as(&*shape)?,
        imaginary.broadcast_as(&*shape)?,
    );
    Tensor::stack(&[real, imaginary], shape.len())
}

/// A real tensor as a complex one of a dtype.
pub fn to_complex(x: &Tensor, dtype: DType) -> Result<Tensor> {
    let x = to_dtype(x, dtype)?;
    complex(&x, &x.zeros_like()?)
}

/// The complex numbers of these sizes and angles.
pub fn polar(size: &Tensor, angle: &Tensor) -> Result<Tensor> {
    complex(
        &mul(size, &super::cos(angle)?)?,
        &mul(size, &super::sin(angle)?)?,
    )
}

fn parts(z: &Tensor) -> Result<(Tensor, Tensor)> {
    match z.dims().last() {
        Some(2) => Ok((real(z)?, imaginary(z)?)),
        _ => bail!("a tensor of shape {:?} has no complex numbers", z.dims()),
    }
}

pub fn real(z: &Tensor) -> Result<Tensor> {
    z.get_on_dim(z.rank() - 1, 0)
}

pub fn imaginary(z: &Tensor) -> Result<Tensor> {
    z.get_on_dim(z.rank() - 1, 1)
}

pub fn conj(z: &Tensor) -> Result<Tensor> {
    let (real, imaginary) = parts(z)?;
    complex(&real, &neg(&imaginary)?)
}

/// `f` of every complex number.
fn map(z: &Tensor, f: impl Fn(Pair) -> Pair) -> Result<Tensor> {
    for_real!(real_dtype("complex", z.dtype())?, T => {
        let out = with_values::<T, _>(z, |values| {
            let pairs = values.chunks_exact(2).map(|v| f([v[0].widen(), v[1].widen()]));
            Ok(pairs.flatten().map(T::narrow).collect::<Vec<_>>())
        })?;
        tensor_like(z, out, z.dims())
    })
}

/// A real number of every complex one.
fn fold(z: &Tensor, f: impl Fn(Pair) -> f64) -> Result<Tensor> {
    real(&map(z, |v| [f(v), 0.0])?)
}

/// `f` of every pair of complex numbers, after broadcasting.
fn zip(a: &Tensor, b: &Tensor, f: impl Fn(Pair, Pair) -> Pair) -> Result<Tensor> {
    let shape = broadcast_shape(a.dims(), b.dims())?;
    let (a, b) = (a.broadcast_as(&*shape)?, b.broadcast_as(&*shape)?);
    for_real!(real_dtype("complex", a.dtype())?, T => {
        let out = with_values::<T, _>(&a, |left| with_values::<T, _>(&b, |right| {
            let pairs = left.chunks_exact(2).zip(right.chunks_exact(2));
            let results = pairs.map(|(x, y)| f([x[0].widen(), x[1].widen()], [y[0].widen(), y[1].widen()]));
            Ok(results.flatten().map(T::narrow).collect::<Vec<_>>())
        }))?;
        tensor_like(&a, out, &shape)
    })
}

fn product(a: Pair, b: Pair) -> Pair {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// Smith's method, which does not square the divisor.
fn quotient(a: Pair, b: Pair) -> Pair {
    if b[0].abs() >= b[1].abs() {
        let ratio = if b[1] == 0.0 { 0.0 } else { b[1] / b[0] };
        let divisor = b[0] + b[1] * ratio;
        [
            (a[0] + a[1] * ratio) / divisor,
            (a[1] - a[0] * ratio) / divisor,
        ]
    } else {
        let ratio = b[0] / b[1];
        let divisor = b[0] * ratio + b[1];
        [
            (a[0] * ratio + a[1]) / divisor,
            (a[1] * ratio - a[0]) / divisor,
        ]
    }
}

fn power(a: Pair, b: Pair) -> Pair {
    if a == [0.0, 0.0] {
        return if b == [0.0, 0.0] {
            [1.0, 0.0]
        } else {
            [0.0, 0.0]
        };
    }
    exponential(product(logarithm(a), b))
}

fn exponential(v: Pair) -> Pair {
    let size = v[0].exp();
    [size * v[1].cos(), size * v[1].sin()]
}

fn logarithm(v: Pair) -> Pair {
    [v[0].hypot(v[1]).ln(), v[1].atan2(v[0])]
}

fn root(v: Pair) -> Pair {
    let size = v[0].hypot(v[1]);
    if size == 0.0 {
        return [0.0, v[1]];
    }
    let larger = ((size + v[0].abs()) / 2.0).sqrt();
    let smaller = v[1].abs() / (2.0 * larger);
    match v[0] >= 0.0 {
        true => [larger, smaller.copysign(v[1])],
        false => [smaller, larger.copysign(v[1])],
    }
}

macro_rules! of_one {
    ($($(#[$doc:meta])* $name:ident, $f:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(z: &Tensor) -> Result<Tensor> {
            map(z, $f)
        }
    )*};
}

of_one! {
    complex_exp, exponential;
    complex_log, logarithm;
    complex_sqrt, root;
    complex_reciprocal, |v| quotient([1.0, 0.0], v);
    complex_square, |v| product(v, v);
    complex_sin, |v| [v[0].sin() * v[1].cosh(), v[0].cos() * v[1].sinh()];
    complex_cos, |v| [v[0].cos() * v[1].cosh(), -v[0].sin() * v[1].sinh()];
    /// Each number divided by its size; zero stays zero.
    complex_sgn, |v| {
        let size = v[0].hypot(v[1]);
        if size == 0.0 { [0.0, 0.0] } else { [v[0] / size, v[1] / size] }
    };
}

pub fn complex_abs(z: &Tensor) -> Result<Tensor> {
    fold(z, |v| v[0].hypot(v[1]))
}

pub fn complex_angle(z: &Tensor) -> Result<Tensor> {
    fold(z, |v| {
        if v[0].is_nan() || v[1].is_nan() {
            f64::NAN
        } else {
            v[1].atan2(v[0])
        }
    })
}

/// The angle of real numbers: π below zero, and else 0.
pub fn angle(x: &Tensor) -> Result<Tensor> {
    let x = match x.dtype().is_int() {
        true => to_dtype(x, DType::F32)?,
        false => x.clone(),
    };
    let pi = super::full(&[], std::f64::consts::PI, x.dtype(), x.device())?;
    let flat = super::where_cond(&super::lt_scalar(&x, 0.0)?, &pi, &x.zeros_like()?)?;
    super::where_cond(&super::isnan(&x)?, &x, &flat)
}

pub fn complex_mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    zip(a, b, product)
}

pub fn complex_div(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    zip(a, b, quotient)
}

pub fn complex_pow(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    zip(a, b, power)
}

/// One where two complex tensors are equal.
pub fn complex_eq(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let same = super::eq(a, b)?;
    super::all(&same, &[same.rank() - 1], false)
}

pub fn complex_prod(z: &Tensor, dim: usize) -> Result<Tensor> {
    let mut total: Option<Tensor> = None;
    for i in 0..z.dim(dim)? {
        let factor = z.get_on_dim(dim, i)?;
        total = Some(match total {
            Some(total) => complex_mul(&total, &factor)?,
            None => factor,
        });
    }
    match total {
        Some(total) => Ok(total),
        None => bail!("the product of no complex numbers"),
    }
}

/// The product of complex matrices.
pub fn complex_matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let ((a, ai), (b, bi)) = (parts(a)?, parts(b)?);
    let real = sub(&matmul(&a, &b)?, &matmul(&ai, &bi)?)?;
    complex(&real, &add(&matmul(&a, &bi)?, &matmul(&ai, &b)?)?)
}
