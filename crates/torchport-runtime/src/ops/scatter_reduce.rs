//! Elements of one tensor gathered into places of another.

use super::index::element_offsets;
use super::kernel::{compute_dtype, with_slice};
use super::to_dtype;
use candle::{bail, DType, Result, Tensor, WithDType};

/// What becomes of the elements that fall on one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gathering {
    Sum,
    Product,
    Mean,
    Max,
    Min,
}

/// `x.scatter_reduce(dim, index, src, …)`; without `include_self` the places that are written to
/// begin anew.
pub fn scatter_reduce(
    x: &Tensor,
    dim: usize,
    index: &Tensor,
    src: &Tensor,
    gathering: Gathering,
    include_self: bool,
) -> Result<Tensor> {
    const OP: &str = "scatter_reduce";
    if x.dtype() != src.dtype() {
        let (x, src) = (x.dtype().as_str(), src.dtype().as_str());
        bail!("{OP}: values of dtype {src} for a tensor of dtype {x}")
    }
    if x.rank() == 0 {
        let (x, index, src) = (x.reshape(1)?, index.reshape(1)?, src.reshape(1)?);
        return scatter_reduce(&x, 0, &index, &src, gathering, include_self)?.reshape(());
    }
    let offsets = element_offsets(OP, x.dims(), dim, index)?;
    let mut values = src.clone();
    for (d, &len) in index.dims().iter().enumerate() {
        values = values.narrow(d, 0, len)?;
    }
    let y = match compute_dtype(OP, x.dtype())? {
        DType::I64 => {
            let (x, values) = (to_dtype(x, DType::I64)?, to_dtype(&values, DType::I64)?);
            let step: fn(i64, i64) -> i64 = match gathering {
                Gathering::Sum | Gathering::Mean => i64::wrapping_add,
                Gathering::Product => i64::wrapping_mul,
                Gathering::Max => i64::max,
                Gathering::Min => i64::min,
            };
            let share = |total: i64, count: i64| total.div_euclid(count);
            gather(
                &x,
                &offsets,
                &values,
                step,
                (gathering, share),
                include_self,
            )?
        }
        _ => {
            let (x, values) = (to_dtype(x, DType::F64)?, to_dtype(&values, DType::F64)?);
            let step: fn(f64, f64) -> f64 = match gathering {
                Gathering::Sum | Gathering::Mean => |a, b| a + b,
                Gathering::Product => |a, b| a * b,
                Gathering::Max => |a, b| if b > a || b.is_nan() { b } else { a },
                Gathering::Min => |a, b| if b < a || b.is_nan() { b } else { a },
            };
            let share = |total: f64, count: i64| total / count as f64;
            gather(
                &x,
                &offsets,
                &values,
                step,
                (gathering, share),
                include_self,
            )?
        }
    };
    to_dtype(&y, x.dtype())
}

fn gather<T: WithDType>(
    x: &Tensor,
    offsets: &[usize],
    values: &Tensor,
    step: fn(T, T) -> T,
    (gathering, share): (Gathering, impl Fn(T, i64) -> T),
    include_self: bool,
) -> Result<Tensor> {
    let mut out = with_slice(x, |data: &[T]| Ok(data.to_vec()))?;
    let mut counts = vec![include_self as i64; out.len()];
    with_slice(values, |values: &[T]| {
        for (&at, &value) in offsets.iter().zip(values) {
            out[at] = if counts[at] == 0 {
                value
            } else {
                step(out[at], value)
            };
            counts[at] += 1;
        }
        Ok(())
    })?;
    if gathering == Gathering::Mean {
        for (o, &count) in out.iter_mut().zip(&counts).filter(|(_, &count)| count > 1) {
            *o = share(*o, count);
        }
    }
    Tensor::from_vec(out, x.shape(), x.device())
}
