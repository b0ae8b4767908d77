//! Random numbers of torch's distributions, from candle's generator: other numbers on each run.

use super::{add, mul, to_dtype};
use candle::{bail, DType, Device, Result, Tensor};

/// Uniform numbers of 53 bits, in `[0, 1)`.
fn units(count: usize) -> Result<Vec<f64>> {
    Tensor::rand(0f64, 1f64, count, &Device::Cpu)?.to_vec1()
}

fn shaped(values: Vec<f64>, shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    to_dtype(&Tensor::from_vec(values, shape, device)?, dtype)
}

/// `torch.rand`: uniform in `[0, 1)`, on a grid as fine as the digits of the dtype, so that none is rounded to 1.
pub fn rand(shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    uniform(0.0, 1.0, shape, dtype, device)
}

/// `Tensor.uniform_`: uniform in `[from, to)`.
pub fn uniform(
    from: f64,
    to: f64,
    shape: &[usize],
    dtype: DType,
    device: &Device,
) -> Result<Tensor> {
    if !(from <= to && (to - from).is_finite()) {
        bail!("uniform: no numbers from {from} to {to}")
    }
    let digits = match dtype {
        DType::BF16 => 8,
        DType::F16 => 11,
        DType::F32 => 24,
        DType::F64 => 53,
        other => bail!("uniform: no numbers of {other:?}"),
    };
    let steps = f64::from(digits).exp2();
    let values = units(shape.iter().product())?;
    let scaled = |u: f64| from + (to - from) * ((u * steps).floor() / steps);
    shaped(
        values.into_iter().map(scaled).collect(),
        shape,
        dtype,
        device,
    )
}

/// `torch.randn`: normal with mean 0 and standard deviation 1.
pub fn randn(shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    normal(0.0, 1.0, shape, dtype, device)
}

/// `torch.normal` of numbers.
pub fn normal(
    mean: f64,
    std: f64,
    shape: &[usize],
    dtype: DType,
    device: &Device,
) -> Result<Tensor> {
    if std.is_nan() || std < 0.0 {
        bail!("normal: {std} is no standard deviation")
    }
    let values = Tensor::randn(0f64, 1f64, shape, device)?;
    to_dtype(&values.affine(std, mean)?, dtype)
}

/// `torch.normal` of tensors that are broadcast against each other.
pub fn normal_of(mean: &Tensor, std: &Tensor) -> Result<Tensor> {
    let shape = mean
        .shape()
        .broadcast_shape_binary_op(std.shape(), "normal")?;
    let drawn = randn(shape.dims(), mean.dtype(), mean.device())?;
    add(mean, &mul(&drawn, std)?)
}

/// `Tensor.exponential_`: positive, with mean `1 / lambda`.
pub fn exponential(lambda: f64, shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    if lambda.is_nan() || lambda <= 0.0 {
        bail!("exponential: {lambda} is not positive")
    }
    let values = units(shape.iter().product())?;
    let drawn = |u: f64| -(-u).ln_1p() / lambda;
    // A sample is never 0, as its logarithm is often taken.
    let positive = |u: f64| drawn(u).max(f64::from(f32::MIN_POSITIVE));
    shaped(
        values.into_iter().map(positive).collect(),
        shape,
        dtype,
        device,
    )
}

/// `torch.randint`: whole numbers in `[low, high)`.
pub fn randint(
    low: i64,
    high: i64,
    shape: &[usize],
    dtype: DType,
    device: &Device,
) -> Result<Tensor> {
    let span = high.checked_sub(low).filter(|&span| span > 0);
    let Some(span) = span else {
        bail!("randint: no whole number from {low} to {high}")
    };
    let values = units(shape.iter().product())?;
    let drawn = |u: f64| low + ((u * span as f64) as i64).min(span - 1);
    let values: Vec<i64> = values.into_iter().map(drawn).collect();
    to_dtype(&Tensor::from_vec(values, shape, device)?, dtype)
}

/// `torch.randperm`: the numbers below `count` in any order.
pub fn randperm(count: usize, dtype: DType, device: &Device) -> Result<Tensor> {
    let mut order: Vec<i64> = (0..count as i64).collect();
    for (place, u) in units(count)?.into_iter().enumerate() {
        let rest = count - place;
        order.swap(place, place + ((u * rest as f64) as usize).min(rest - 1));
    }
    to_dtype(&Tensor::from_vec(order, count, device)?, dtype)
}

/// `torch.bernoulli` of one number: 1 for a share `p` of the elements, else 0.
pub fn bernoulli(p: f64, shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    if !(0.0..=1.0).contains(&p) {
        bail!("bernoulli: {p} is no probability")
    }
    let values = units(shape.iter().product())?;
    let drawn = |u: f64| f64::from(u8::from(u < p));
    shaped(
        values.into_iter().map(drawn).collect(),
        shape,
        dtype,
        device,
    )
}

/// `torch.bernoulli` of a tensor of probabilities, broadcast to a shape.
pub fn bernoulli_of(p: &Tensor, shape: &[usize], dtype: DType) -> Result<Tensor> {
    let shares = flat(&p.broadcast_as(shape)?)?;
    if let Some(wrong) = shares.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        bail!("bernoulli: {wrong} is no probability")
    }
    let drawn = |(p, u): (f64, f64)| f64::from(u8::from(u < p));
    let values = shares.into_iter().zip(units(shape.iter().product())?);
    shaped(values.map(drawn).collect(), shape, dtype, p.device())
}

/// `torch.multinomial`: positions along the last axis, drawn in proportion to the weights there.
pub fn multinomial(weights: &Tensor, count: usize, replacement: bool) -> Result<Tensor> {
    let classes = weights.dim(weights.rank() - 1)?;
    let mut drawn = Vec::new();
    for row in flat(weights)?.chunks(classes.max(1)) {
        if row.iter().any(|w| !(w.is_finite() && *w >= 0.0)) {
            bail!("multinomial: a weight is negative or not finite")
        }
        let possible = row.iter().filter(|&&w| w > 0.0).count();
        if possible == 0 || (!replacement && possible < count) {
            bail!("multinomial: {count} cannot be drawn of {possible} with a weight")
        }
        drawn.extend(match replacement {
            true => with_replacement(row, count)?,
            false => without_replacement(row, count)?,
        });
    }
    let mut shape = weights.dims().to_vec();
    shape.pop();
    shape.push(count);
    Tensor::from_vec(drawn, shape, weights.device())
}

fn with_replacement(weights: &[f64], count: usize) -> Result<Vec<i64>> {
    let mut total = 0.0;
    let ends: Vec<f64> = weights
        .iter()
        .map(|w| {
            total += w;
            total
        })
        .collect();
    let last = weights.iter().rposition(|&w| w > 0.0).unwrap_or(0);
    let place = |u: f64| ends.partition_point(|&end| end <= u * total).min(last);
    Ok(units(count)?.into_iter().map(|u| place(u) as i64).collect())
}

/// Each waits for a time that is exponential in its weight; those that come first are drawn.
fn without_replacement(weights: &[f64], count: usize) -> Result<Vec<i64>> {
    let waits = units(weights.len())?;
    let mut order: Vec<(f64, usize)> = waits
        .into_iter()
        .enumerate()
        .filter(|&(place, _)| weights[place] > 0.0)
        .map(|(place, u)| (-(-u).ln_1p() / weights[place], place))
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(order[..count]
        .iter()
        .map(|&(_, place)| place as i64)
        .collect())
}

fn flat(x: &Tensor) -> Result<Vec<f64>> {
    x.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: usize = 20_000;

    fn spread(x: &Tensor) -> Result<(f64, f64)> {
        let values = flat(x)?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
        Ok((mean, (square / values.len() as f64).sqrt()))
    }

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 0.05, "{found} for {wanted}");
    }

    #[test]
    fn distributions_have_their_mean_and_deviation() -> Result<()> {
        let cpu = &Device::Cpu;
        let third = 1.0 / 12f64.sqrt();
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            let cases = [
                (rand(&[N], dtype, cpu)?, 0.5, third),
                (uniform(-1.0, 3.0, &[N], dtype, cpu)?, 1.0, 4.0 * third),
                (randn(&[N], dtype, cpu)?, 0.0, 1.0),
                (normal(2.0, 0.5, &[N], dtype, cpu)?, 2.0, 0.5),
                (exponential(2.0, &[N], dtype, cpu)?, 0.5, 0.5),
                (bernoulli(0.25, &[N], dtype, cpu)?, 0.25, 0.1875f64.sqrt()),
            ];
            for (x, mean, deviation) in cases {
                assert_eq!((x.dtype(), x.dims()), (dtype, &[N][..]));
                let found = spread(&x)?;
                near(found.0, mean);
                near(found.1, deviation);
            }
        }
        Ok(())
    }

    #[test]
    fn uniform_numbers_of_few_digits_stay_below_one() -> Result<()> {
        for dtype in [DType::F16, DType::BF16, DType::F32] {
            let values = flat(&rand(&[N], dtype, &Device::Cpu)?)?;
            assert!(values.iter().all(|v| (0.0..1.0).contains(v)));
        }
        Ok(())
    }

    #[test]
    fn whole_numbers_are_in_range_and_orders_are_whole() -> Result<()> {
        let drawn = randint(-2, 3, &[N], DType::I64, &Device::Cpu)?.to_vec1::<i64>()?;
        for number in -2..3 {
            let share = drawn.iter().filter(|&&v| v == number).count() as f64 / N as f64;
            near(share, 0.2);
        }
        assert!(drawn.iter().all(|v| (-2..3).contains(v)));
        assert!(randint(3, 3, &[1], DType::I64, &Device::Cpu).is_err());
        let mut order = randperm(100, DType::I64, &Device::Cpu)?.to_vec1::<i64>()?;
        assert_ne!(order, (0..100).collect::<Vec<i64>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<i64>>());
        assert_eq!(randperm(0, DType::I64, &Device::Cpu)?.dims(), [0]);
        Ok(())
    }

    #[test]
    fn tensors_of_means_and_probabilities_are_followed() -> Result<()> {
        let cpu = &Device::Cpu;
        let mean = Tensor::new(&[[0f32], [10.0]], cpu)?;
        let drawn = normal_of(&mean, &Tensor::full(0.5f32, N, cpu)?)?;
        assert_eq!(drawn.dims(), [2, N]);
        near(spread(&drawn.get(1)?)?.0, 10.0);
        near(spread(&drawn.get(0)?)?.1, 0.5);
        let share = Tensor::new(&[0f32, 1.0, 0.5], cpu)?;
        let drawn = bernoulli_of(&share, &[N, 3], DType::F32)?
            .mean(0)?
            .to_vec1::<f32>()?;
        assert_eq!(drawn[..2], [0.0, 1.0]);
        near(f64::from(drawn[2]), 0.5);
        assert!(bernoulli_of(&Tensor::new(&[1.5f32], cpu)?, &[1], DType::F32).is_err());
        Ok(())
    }

    #[test]
    fn multinomial_draws_in_proportion_and_never_what_has_no_weight() -> Result<()> {
        let cpu = &Device::Cpu;
        let weights = Tensor::new(&[[1f32, 0.0, 3.0], [2.0, 2.0, 0.0]], cpu)?;
        let drawn = multinomial(&weights, N, true)?.to_vec2::<i64>()?;
        let share = |row: usize, place: i64| {
            drawn[row].iter().filter(|&&v| v == place).count() as f64 / N as f64
        };
        near(share(0, 2), 0.75);
        near(share(1, 0), 0.5);
        assert_eq!((share(0, 1), share(1, 2)), (0.0, 0.0));
        let mut once = multinomial(&weights.get(0)?, 2, false)?.to_vec1::<i64>()?;
        once.sort_unstable();
        assert_eq!(once, [0, 2]);
        assert!(multinomial(&weights, 3, false).is_err());
        assert!(multinomial(&Tensor::new(&[-1f32, 2.0], cpu)?, 1, true).is_err());
        Ok(())
    }
}
