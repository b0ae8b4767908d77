//! Where candle's own operations differ from torch's: a test for each, of what torch gives.

use super::*;
use candle::{DType, Device, Result, Tensor};
use half::bf16;

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

fn floats(values: &[f32]) -> Tensor {
    Tensor::new(values, &Device::Cpu).unwrap()
}

fn ints(values: &[i64]) -> Tensor {
    Tensor::new(values, &Device::Cpu).unwrap()
}

/// Equal to the last bit, and not a number where it should be.
fn assert_floats(got: Result<Tensor>, want: &[f32]) {
    let got = got
        .unwrap()
        .flatten_all()
        .unwrap()
        .to_vec1::<f32>()
        .unwrap();
    let same = |(g, w): (&f32, &f32)| g == w || (g.is_nan() && w.is_nan());
    assert!(
        got.len() == want.len() && got.iter().zip(want).all(same),
        "{got:?} is not {want:?}"
    );
}

fn assert_ints(got: Result<Tensor>, want: &[i64]) {
    let got = got.unwrap().flatten_all().unwrap();
    assert_eq!(got.to_vec1::<i64>().unwrap(), want);
}

fn assert_bytes(got: Result<Tensor>, want: &[u8]) {
    let got = got.unwrap().flatten_all().unwrap();
    assert_eq!(got.to_vec1::<u8>().unwrap(), want);
}

#[test]
fn long_sums_keep_their_digits() {
    let tenths = full(&[10_000_000], 0.1, DType::F32, &Device::Cpu).unwrap();
    assert_floats(sum(&tenths, &[0], false), &[1_000_000.0]);
    let tenths = tenths.narrow(0, 0, 2_000_000).unwrap();
    let columns = tenths.reshape((1_000_000, 2)).unwrap();
    assert_floats(mean(&columns, &[0], false), &[0.1, 0.1]);
}

#[test]
fn half_types_are_summed_in_more_digits() {
    for dtype in [DType::F16, DType::BF16] {
        let ones = full(&[4096], 1.0, dtype, &Device::Cpu).unwrap();
        let total = sum(&ones, &[0], false).unwrap();
        assert_eq!(total.dtype(), dtype);
        assert_floats(to_dtype(&total, DType::F32), &[4096.0]);
        let last = cumsum(&ones, 0).unwrap().narrow(0, 4095, 1).unwrap();
        assert_floats(to_dtype(&last, DType::F32), &[4096.0]);
    }
}

#[test]
fn bools_are_counted_beyond_255() {
    let ones = full(&[1000], 1.0, DType::U8, &Device::Cpu).unwrap();
    assert_ints(sum(&ones, &[0], false), &[1000]);
}

#[test]
fn halves_round_to_even() {
    let x = floats(&[0.5, 1.5, 2.5, -0.5, -1.5]);
    assert_floats(round(&x), &[0.0, 2.0, 2.0, 0.0, -2.0]);
}

#[test]
fn negative_bases_and_zero_have_powers() {
    let powers = pow(&floats(&[-2.0, 0.0, -8.0]), &floats(&[2.0, 0.0, 0.5]));
    assert_floats(powers, &[4.0, 1.0, NAN]);
    assert_ints(pow_scalar(&ints(&[-3, 2]), 3.0), &[-27, 8]);
    assert!(pow_scalar(&ints(&[2]), -1.0).is_err());
}

#[test]
fn cumsum_survives_infinity_and_takes_integers() {
    assert_floats(cumsum(&floats(&[1.0, INF, 2.0]), 0), &[1.0, INF, INF]);
    assert_ints(cumsum(&ints(&[1, 2, 3]), 0), &[1, 3, 6]);
}

#[test]
fn nan_passes_through() {
    let x = floats(&[1.0, NAN, -1.0]);
    assert_floats(relu(&x), &[1.0, NAN, 0.0]);
    assert_floats(clamp(&x, Some(0.0), Some(0.5)), &[0.5, NAN, 0.0]);
    assert_floats(amax(&x, &[0], false), &[NAN]);
    assert_floats(amin(&x, &[0], false), &[NAN]);
    assert_floats(maximum(&x, &floats(&[NAN, 0.0, 0.0])), &[NAN, NAN, 0.0]);
    assert_floats(minimum(&x, &floats(&[NAN, 0.0, 0.0])), &[NAN, NAN, -1.0]);
    assert_ints(argmax(&x, 0, false), &[1]);
}

#[test]
fn nan_sorts_last_and_counts_as_largest() {
    let x = floats(&[3.0, NAN, 1.0, INF]);
    let (values, order) = sort(&x, 0, false).unwrap();
    assert_floats(Ok(values), &[1.0, 3.0, INF, NAN]);
    assert_ints(Ok(order), &[2, 0, 3, 1]);
    assert_floats(
        topk(&x, 2, 0, true, true).map(|(values, _)| values),
        &[NAN, INF],
    );
}

#[test]
fn floats_wrap_when_cast_to_bytes() {
    assert_bytes(
        to_dtype(&floats(&[-1.0, 300.0, 2.9]), DType::U8),
        &[255, 44, 2],
    );
    assert_bytes(to_bool(&floats(&[0.0, 0.5, NAN])), &[0, 1, 1]);
}

#[test]
fn f8_goes_to_f64() {
    let x = to_dtype(&floats(&[1.5, -448.0]), DType::F8E4M3).unwrap();
    let x = to_dtype(&x, DType::F64).unwrap();
    assert_eq!(x.to_vec1::<f64>().unwrap(), [1.5, -448.0]);
}

#[test]
fn fractions_promote_integers() {
    assert_floats(mul_scalar(&ints(&[1, 3]), 0.5), &[0.5, 1.5]);
    assert_floats(div(&ints(&[1, 3]), &ints(&[2, 2])), &[0.5, 1.5]);
    assert_floats(exp(&ints(&[0])), &[1.0]);
}

#[test]
fn integer_division_knows_its_rounding() {
    let (a, b) = (ints(&[-7, 7]), ints(&[2, -2]));
    assert_ints(floor_divide(&a, &b), &[-4, -4]);
    assert_ints(div_trunc(&a, &b), &[-3, -3]);
    assert_ints(remainder(&a, &b), &[1, -1]);
    assert_ints(fmod(&a, &b), &[-1, 1]);
    assert!(floor_divide(&a, &ints(&[0, 1])).is_err());
    assert!(remainder_scalar(&a, 0.0).is_err());
}

#[test]
fn integers_can_be_negated() {
    let x = to_dtype(&ints(&[1, -2]), DType::I32).unwrap();
    assert_ints(to_dtype(&neg(&x).unwrap(), DType::I64), &[-1, 2]);
}

#[test]
fn empty_tensors_are_no_error() {
    let empty = Tensor::zeros((2, 0), DType::F32, &Device::Cpu).unwrap();
    assert_eq!(softmax(&empty, 1).unwrap().dims(), [2, 0]);
    assert_floats(sum(&empty, &[1], false), &[0.0, 0.0]);
    assert_floats(mean(&empty, &[1], false), &[NAN, NAN]);
    assert_eq!(gelu(&empty).unwrap().dims(), [2, 0]);
    assert!(amax(&empty, &[1], false).is_err());
}

#[test]
fn indices_may_be_i32_and_negative_where_torch_allows_it() {
    let x = floats(&[10.0, 11.0, 12.0]);
    let last = to_dtype(&ints(&[-1, 0]), DType::I32).unwrap();
    assert_floats(index(&x, &[Some(&last)]), &[12.0, 10.0]);
    assert_floats(select(&x, 0, -2), &[11.0]);
    assert!(index_select(&x, 0, &ints(&[-1])).is_err());
    assert!(embedding(&x.reshape((3, 1)).unwrap(), &ints(&[3])).is_err());
}

#[test]
fn where_broadcasts_all_three() {
    let condition = Tensor::new(&[[1u8], [0]], &Device::Cpu).unwrap();
    let chosen = where_cond(&condition, &floats(&[1.0, 2.0]), &floats(&[0.0]));
    assert_floats(chosen, &[1.0, 2.0, 0.0, 0.0]);
}

#[test]
fn dtypes_that_differ_are_refused() {
    let x = floats(&[1.0]);
    assert!(add(&x, &ints(&[1])).is_err());
    assert!(where_cond(&ints(&[1]), &x, &ints(&[1])).is_err());
}

#[test]
fn numbers_are_rounded_to_bf16_as_torch_does() {
    let one = full(&[], 1.0, DType::BF16, &Device::Cpu).unwrap();
    let third = |f: fn(&Tensor, f64) -> Result<Tensor>| f(&one, 0.3).unwrap();
    let rounded = bf16::from_f32(0.3).to_f32();
    let sum = third(add_scalar).to_scalar::<bf16>().unwrap();
    assert_eq!(sum, bf16::from_f32(1.0 + rounded));
    let product = third(mul_scalar).to_scalar::<bf16>().unwrap();
    assert_eq!(product, bf16::from_f32(0.3));
}

#[test]
fn views_out_of_order_are_read_in_order() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let transposed = x.reshape((2, 3)).unwrap().t().unwrap();
    assert_floats(contiguous(&transposed), &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    assert_floats(sum(&transposed, &[1], false), &[5.0, 7.0, 9.0]);
    assert_floats(flip(&transposed, &[0]), &[3.0, 6.0, 2.0, 5.0, 1.0, 4.0]);
    let row = floats(&[10.0, 20.0]);
    assert_floats(
        add(&transposed, &row),
        &[11.0, 24.0, 12.0, 25.0, 13.0, 26.0],
    );
    let repeated = repeat(&transposed, &[1, 2]).unwrap();
    assert_floats(select(&repeated, 0, 0), &[1.0, 4.0, 1.0, 4.0]);
}
