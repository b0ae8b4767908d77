//! Running combinations of the elements of tensors along their first dimension.

use candle::{Result, Tensor};

/// Combines elements as eager torch does: neighbours first, then the pairs, so that rounding is the same.
///
/// Element `i` of the result is the combination of the elements `0..=i` of `xs`. `combine` is given one element of
/// each tensor from the left, and one of each from the right.
pub fn associative_scan<const N: usize>(
    xs: [&Tensor; N],
    combine: impl Fn([&Tensor; N], [&Tensor; N]) -> Result<[Tensor; N]>,
) -> Result<[Tensor; N]> {
    let count = match xs.first() {
        Some(x) => x.dim(0)?,
        None => 0,
    };
    let elements = (0..count)
        .map(|i| try_each(|n| xs[n].get(i)))
        .collect::<Result<Vec<_>>>()?;
    if elements.is_empty() {
        return Ok(xs.map(Tensor::clone));
    }
    let scanned = scan(&elements, &combine)?;
    try_each(|n| Tensor::stack(&scanned.iter().map(|step| &step[n]).collect::<Vec<_>>(), 0))
}

fn scan<const N: usize>(
    elements: &[[Tensor; N]],
    combine: &impl Fn([&Tensor; N], [&Tensor; N]) -> Result<[Tensor; N]>,
) -> Result<Vec<[Tensor; N]>> {
    if elements.len() < 2 {
        return Ok(elements.to_vec());
    }
    let join = |left: &[Tensor; N], right: &[Tensor; N]| combine(left.each_ref(), right.each_ref());
    let pairs = elements
        .chunks_exact(2)
        .map(|pair| join(&pair[0], &pair[1]))
        .collect::<Result<Vec<_>>>()?;
    let odd = scan(&pairs, combine)?;
    let mut result = Vec::with_capacity(elements.len());
    for (index, element) in elements.iter().enumerate() {
        result.push(match index {
            0 => element.clone(),
            _ if index % 2 == 1 => odd[index / 2].clone(),
            _ => join(&odd[index / 2 - 1], element)?,
        });
    }
    Ok(result)
}

fn try_each<const N: usize>(make: impl Fn(usize) -> Result<Tensor>) -> Result<[Tensor; N]> {
    let made = (0..N).map(make).collect::<Result<Vec<_>>>()?;
    made.try_into()
        .map_err(|made: Vec<Tensor>| candle::Error::msg(format!("{} tensors, not {N}", made.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle::Device;

    #[test]
    fn combines_any_number_of_elements() -> Result<()> {
        for count in 0..9u32 {
            let xs = Tensor::arange(0u32, count, &Device::Cpu)?;
            // The running maximum and the running sum are carried side by side.
            let [most, sum] =
                associative_scan([&xs, &xs], |[a, x], [b, y]| Ok([a.maximum(b)?, (x + y)?]))?;
            let sums: Vec<u32> = (0..count).map(|i| i * (i + 1) / 2).collect();
            assert_eq!(most.to_vec1::<u32>()?, xs.to_vec1::<u32>()?);
            assert_eq!(sum.to_vec1::<u32>()?, sums);
        }
        Ok(())
    }
}
