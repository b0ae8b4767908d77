//! Matrix products with torch's rules for shapes: `matmul` and `linear`.

use super::gemm::{gemm, Sizes};
use super::kernel::{broadcast_shape, compute_dtype};
use super::matrix::{Mat, Target};
use super::real::{
    for_real, parameter, real_dtype, tensor_like, with_values, Real, SharedMut, Strided,
};
use super::{add, mul, mul_scalar, to_dtype};
use candle::{bail, DType, Result, Tensor, D};
use rayon::prelude::*;

/// `torch.matmul`: vectors, matrices and batches of them, with the batch dims broadcast.
pub fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match (a.rank(), b.rank()) {
        (0, _) | (_, 0) => bail!(
            "matmul needs at least one dim, got {:?} and {:?}",
            a.shape(),
            b.shape()
        ),
        (1, 1) => matmul(&a.unsqueeze(0)?, &b.unsqueeze(1)?)?.reshape(()),
        (1, _) => matmul(&a.unsqueeze(0)?, b)?.squeeze(D::Minus2),
        (_, 1) => matmul(a, &b.unsqueeze(1)?)?.squeeze(D::Minus1),
        (rank, 2) if rank > 2 => {
            let (batch, inner) = a.dims().split_at(rank - 1);
            let rows = a.reshape((batch.iter().product::<usize>(), inner[0]))?;
            batched(&rows, b)?.reshape([batch, &[b.dim(1)?]].concat())
        }
        _ => batched(a, b),
    }
}

/// `x · wᵀ + bias` over the last dim of `x`; `w` has the shape (out, in).
pub fn linear(x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    if w.rank() != 2 || !x.device().is_cpu() || x.dtype().is_int() {
        let y = matmul(x, &if w.rank() == 2 { w.t()? } else { w.clone() })?;
        return match bias {
            Some(bias) => add(&y, bias),
            None => Ok(y),
        };
    }
    let (out, inner) = w.dims2()?;
    let Some((&last, batch)) = x.dims().split_last() else {
        bail!("linear needs an input with at least one dim");
    };
    if last != inner || bias.is_some_and(|bias| bias.elem_count() != out) {
        bail!(
            "linear: input {:?} and bias {:?} do not fit weight {:?}",
            x.shape(),
            bias.map(|bias| bias.shape()),
            w.shape()
        );
    }
    let sizes = Sizes {
        m: batch.iter().product(),
        n: out,
        k: inner,
    };
    let dtype = real_dtype("linear", x.dtype())?;
    let w = w.to_dtype(dtype)?;
    let y = for_real!(dtype, T => {
        let weight = Strided::new(&w);
        let weight = Mat::new(weight.values::<T>()?, w.stride()[1], w.stride()[0]);
        let bias = parameter::<T>(bias)?;
        let y = with_values(x, |x| Ok(affine(sizes, x, weight, &bias)))?;
        tensor_like(x, y, &[batch, &[out]].concat())?
    });
    Ok(y)
}

/// Rows of `x` times `weight`, plus `bias` unless that is empty.
fn affine<T: Real>(sizes: Sizes, x: &[T], weight: Mat<T>, bias: &[T]) -> Vec<T> {
    let mut y = match bias {
        [] => vec![T::ZERO; sizes.m * sizes.n],
        _ => bias.repeat(sizes.m),
    };
    let target = Target::new(SharedMut::new(&mut y), 0, sizes.n, !bias.is_empty());
    // SAFETY: `y` has m rows of n elements and is not shared.
    unsafe { gemm(sizes, target, Mat::new(x, sizes.k, 1), weight, true) };
    y
}

/// The product of two tensors of rank 2 or more.
fn batched(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (a_batch, a_dims) = a.dims().split_at(a.rank() - 2);
    let (b_batch, b_dims) = b.dims().split_at(b.rank() - 2);
    let (m, k, n) = (a_dims[0], a_dims[1], b_dims[1]);
    if b_dims[0] != k || a.dtype() != b.dtype() {
        bail!("matmul: {a:?} and {b:?} do not fit together");
    }
    if !a.device().is_cpu() {
        return a.contiguous()?.broadcast_matmul(&b.contiguous()?);
    }
    let batch = broadcast_shape(a_batch, b_batch)?;
    if a.dtype().is_int() {
        let y = integers(a, b, &[&batch[..], &[m, n]].concat())?;
        return to_dtype(&y, a.dtype());
    }
    let dtype = real_dtype("matmul", a.dtype())?;
    let lhs = a
        .to_dtype(dtype)?
        .broadcast_as([&batch[..], a_dims].concat())?;
    let rhs = b
        .to_dtype(dtype)?
        .broadcast_as([&batch[..], b_dims].concat())?;
    let y = for_real!(dtype, T => {
        tensor_like(a, products::<T>(&lhs, &rhs)?, &[&batch[..], &[m, n]].concat())?
    });
    Ok(y)
}

/// The product of integers, which wraps as torch's does: a sum of products of a column and a row.
fn integers(a: &Tensor, b: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let (a, b) = (to_dtype(a, DType::I64)?, to_dtype(b, DType::I64)?);
    let mut y = super::full(shape, 0.0, DType::I64, a.device())?;
    for i in 0..a.dim(D::Minus1)? {
        let (column, row) = (a.narrow(D::Minus1, i, 1)?, b.narrow(D::Minus2, i, 1)?);
        y = add(&y, &mul(&column, &row)?)?;
    }
    Ok(y)
}

/// `beta · addend + alpha · (a @ b)`, rounded once. With a `beta` of 0, what the addend is does not matter.
pub fn addmm(addend: &Tensor, a: &Tensor, b: &Tensor, beta: f64, alpha: f64) -> Result<Tensor> {
    let compute = compute_dtype("addmm", a.dtype())?;
    let product = matmul(&to_dtype(a, compute)?, &to_dtype(b, compute)?)?;
    let scaled = |x: &Tensor, factor: f64| match factor {
        1.0 => Ok(x.clone()),
        _ => mul_scalar(x, factor),
    };
    let product = scaled(&product, alpha)?;
    let y = match beta {
        0.0 => product,
        _ => add(&scaled(&to_dtype(addend, compute)?, beta)?, &product)?,
    };
    to_dtype(&y, a.dtype())
}

/// Multiplies matrices of equal batch shape, whatever their strides.
fn products<T: Real>(lhs: &Tensor, rhs: &Tensor) -> Result<Vec<T>> {
    let rank = lhs.rank();
    let batch = &lhs.dims()[..rank - 2];
    let sizes = Sizes {
        m: lhs.dim(rank - 2)?,
        k: lhs.dim(rank - 1)?,
        n: rhs.dim(rank - 1)?,
    };
    let lhs_starts = offsets(batch, &lhs.stride()[..rank - 2]);
    let rhs_starts = offsets(batch, &rhs.stride()[..rank - 2]);
    let count = lhs_starts.len();
    let mut y = vec![T::ZERO; count * sizes.m * sizes.n];
    if y.is_empty() || sizes.k == 0 {
        return Ok(y);
    }
    let (lhs_view, rhs_view) = (Strided::new(lhs), Strided::new(rhs));
    let (lhs_values, rhs_values) = (lhs_view.values::<T>()?, rhs_view.values::<T>()?);
    let (lhs_strides, rhs_strides) = (&lhs.stride()[rank - 2..], &rhs.stride()[rank - 2..]);
    let values = SharedMut::new(&mut y);
    let product = |index: usize, parallel: bool| {
        let target = Target::new(values, index * sizes.m * sizes.n, sizes.n, false);
        let lhs = Mat::new(
            &lhs_values[lhs_starts[index]..],
            lhs_strides[0],
            lhs_strides[1],
        );
        let rhs = Mat::new(
            &rhs_values[rhs_starts[index]..],
            rhs_strides[0],
            rhs_strides[1],
        );
        // SAFETY: each index writes its own m * n elements of `y`.
        unsafe { gemm(sizes, target, lhs, rhs, parallel) };
    };
    if count >= rayon::current_num_threads() {
        (0..count)
            .into_par_iter()
            .for_each(|index| product(index, false));
    } else {
        (0..count).for_each(|index| product(index, true));
    }
    Ok(y)
}

/// Where each index of `dims`, in order, starts in a storage with `strides`.
fn offsets(dims: &[usize], strides: &[usize]) -> Vec<usize> {
    let mut starts = vec![0];
    for (&dim, &stride) in dims.iter().zip(strides) {
        starts = starts
            .iter()
            .flat_map(|start| (0..dim).map(move |i| start + i * stride))
            .collect();
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle::Device;

    fn counted(shape: &[usize], dtype: DType) -> Result<Tensor> {
        let count = shape.iter().product::<usize>() as u32;
        let values = Tensor::arange(0, count, &Device::Cpu)?.to_dtype(DType::F64)?;
        (values * 0.37)?.sin()?.reshape(shape)?.to_dtype(dtype)
    }

    #[test]
    fn shapes_follow_torch() -> Result<()> {
        let cases: [(&[usize], &[usize], &[usize]); 7] = [
            (&[4], &[4], &[]),
            (&[4], &[4, 5], &[5]),
            (&[3, 4], &[4], &[3]),
            (&[2, 3, 4], &[4, 5], &[2, 3, 5]),
            (&[2, 1, 3, 4], &[5, 4, 6], &[2, 5, 3, 6]),
            (&[0, 3, 4], &[4, 5], &[0, 3, 5]),
            (&[3, 0], &[0, 5], &[3, 5]),
        ];
        for (a, b, y) in cases {
            let product = matmul(&counted(a, DType::F32)?, &counted(b, DType::F32)?)?;
            assert_eq!(product.dims(), y, "{a:?} times {b:?}");
        }
        assert!(matmul(
            &counted(&[3, 4], DType::F32)?,
            &counted(&[3, 4], DType::F32)?
        )
        .is_err());
        Ok(())
    }

    #[test]
    fn linear_reads_transposed_views_and_adds_the_bias() -> Result<()> {
        let (x, w) = (
            counted(&[2, 3, 40], DType::F32)?,
            counted(&[40, 7], DType::F32)?,
        );
        let bias = counted(&[7], DType::F32)?;
        let y = linear(&x, &w.t()?, Some(&bias))?
            .flatten_to(1)?
            .to_vec2::<f32>()?;
        let (x, w) = (x.flatten_to(1)?.to_vec2::<f32>()?, w.to_vec2::<f32>()?);
        let bias = bias.to_vec1::<f32>()?;
        for (i, row) in y.iter().enumerate() {
            for (j, &value) in row.iter().enumerate() {
                let product: f64 = (0..40).map(|k| x[i][k] as f64 * w[k][j] as f64).sum();
                assert!((value as f64 - product - bias[j] as f64).abs() < 1e-6);
            }
        }
        Ok(())
    }

    #[test]
    fn long_sums_of_a_row_keep_their_precision() -> Result<()> {
        let ones = Tensor::ones((1, 1 << 20), DType::F32, &Device::Cpu)?;
        let tenths = (Tensor::ones((1 << 20, 3), DType::F32, &Device::Cpu)? * 0.1)?;
        let expected = 0.1f32 as f64 * (1 << 20) as f64;
        for value in matmul(&ones, &tenths)?.flatten_all()?.to_vec1::<f32>()? {
            assert!((value as f64 - expected).abs() < 2e-6 * expected);
        }
        Ok(())
    }

    #[test]
    fn half_types_are_summed_in_f32() -> Result<()> {
        for dtype in [DType::F16, DType::BF16] {
            let ones = Tensor::ones((2, 4096), dtype, &Device::Cpu)?;
            let y = linear(&ones, &ones, None)?.to_dtype(DType::F32)?;
            assert_eq!(y.to_vec2::<f32>()?, [[4096.0; 2]; 2]);
        }
        Ok(())
    }
}
