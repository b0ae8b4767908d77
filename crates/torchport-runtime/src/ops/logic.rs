//! Logic and bits, with broadcasting.

use super::kernel::zip;
use super::{to_bool, to_dtype};
use candle::{bail, DType, Result, Tensor};

/// Whether a condition holds: a tensor of one element, which may be of any dtype.
pub fn is_true(condition: &Tensor) -> Result<bool> {
    if condition.elem_count() != 1 {
        bail!(
            "a condition has one element, not shape {:?}",
            condition.shape()
        );
    }
    Ok(to_bool(&condition.flatten_all()?)?.to_vec1::<u8>()? == [1])
}

/// Raises unless a tensor has some length along a dimension, for code that holds for this length alone.
pub fn expect_length(x: &Tensor, dim: usize, length: usize) -> Result<()> {
    match x.dim(dim)? {
        found if found == length => Ok(()),
        found => bail!("this model is made for length {length} along dimension {dim}, not {found}"),
    }
}

macro_rules! logic_functions {
    ($($name:ident, $operator:tt;)*) => {$(
        /// On whether the elements are not zero, as u8.
        pub fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            zip(&to_bool(a)?, &to_bool(b)?, |a: u8, b: u8| a $operator b)
        }
    )*};
}

logic_functions! {
    logical_and, &;
    logical_or, |;
    logical_xor, ^;
}

macro_rules! bit_functions {
    ($($name:ident, $operator:tt;)*) => {$(
        /// On the bits of integers.
        pub fn $name(a: &Tensor, b: &Tensor) -> Result<Tensor> {
            match (a.dtype(), b.dtype()) {
                (DType::U8, DType::U8) => zip(a, b, |a: u8, b: u8| a $operator b),
                (dtype, other) if dtype == other && dtype.is_int() => {
                    let (a, b) = (to_dtype(a, DType::I64)?, to_dtype(b, DType::I64)?);
                    to_dtype(&zip(&a, &b, |a: i64, b: i64| a $operator b)?, dtype)
                }
                (a, b) => bail!(
                    "{}: dtypes {} and {} are not supported",
                    stringify!($name), a.as_str(), b.as_str()
                ),
            }
        }
    )*};
}

bit_functions! {
    bitwise_and, &;
    bitwise_or, |;
    bitwise_xor, ^;
}
