//! Times this crate's products beside those of the `gemm` crate, in turns, and keeps what both compute.
//!
//! `benchmarks/bench_gemm.py` writes INPUTS, which has `KIND/NAME/x` and `KIND/NAME/w` for each case, and reads
//! OUTPUTS, which has `KIND/NAME/own` and `KIND/NAME/gemm`. Printed is a JSON object with a list of
//! `[own, gemm]` seconds for each case.

use candle::{bail, Device, Layout, Result, Storage, Tensor};
use gemm::Parallelism;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::time::Instant;
use torchport_runtime::check::{read_tensors, write_tensors};
use torchport_runtime::ops;

/// A measurement repeats a product until it takes about this many seconds.
const LEAST_SECONDS: f64 = 0.02;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [inputs, outputs, rounds] = args.as_slice() else {
        bail!("usage: gemm_beside_gemm INPUTS OUTPUTS ROUNDS");
    };
    let rounds: usize = rounds.parse().map_err(candle::Error::wrap)?;
    let tensors = read_tensors(inputs, &Device::Cpu)?;
    let names: BTreeSet<&str> = tensors
        .keys()
        .filter_map(|key| key.strip_suffix("/x"))
        .collect();
    let mut computed = BTreeMap::new();
    let mut seconds = BTreeMap::new();
    for name in names {
        let (x, w) = (
            &tensors[&format!("{name}/x")],
            &tensors[&format!("{name}/w")],
        );
        let kind = name.split('/').next().unwrap_or_default();
        let sides: [(&str, Product); 2] = match kind {
            "linear" => [("own", own_linear), ("gemm", gemm_linear)],
            "matmul" => [("own", ops::matmul), ("gemm", gemm_matmul)],
            "conv" => [("own", own_conv), ("gemm", gemm_conv)],
            "candle" | "depthwise" => [("own", own_conv), ("gemm", candle_conv)],
            kind => bail!("there is no kind {kind}"),
        };
        for (side, product) in sides {
            computed.insert(format!("{name}/{side}"), product(x, w)?);
        }
        let [own, gemm] = sides.map(|(_, product)| product);
        seconds.insert(name, in_turns(rounds, own, gemm, x, w)?);
    }
    write_tensors(&computed, outputs)?;
    println!(
        "{}",
        serde_json::to_string(&seconds).map_err(candle::Error::wrap)?
    );
    Ok(())
}

type Product = fn(&Tensor, &Tensor) -> Result<Tensor>;

/// Seconds of one product of each side, measured right after one another and each first in every other round.
fn in_turns(
    rounds: usize,
    own: Product,
    gemm: Product,
    x: &Tensor,
    w: &Tensor,
) -> Result<Vec<[f64; 2]>> {
    let repetitions = (LEAST_SECONDS / time(own, x, w, 1)?).ceil().max(1.0) as usize;
    (0..rounds)
        .map(|round| {
            let first = match round % 2 {
                0 => None,
                _ => Some(time(gemm, x, w, repetitions)?),
            };
            let own = time(own, x, w, repetitions)?;
            let gemm = first.map_or_else(|| time(gemm, x, w, repetitions), Ok)?;
            Ok([own, gemm])
        })
        .collect()
}

fn time(product: Product, x: &Tensor, w: &Tensor, repetitions: usize) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..repetitions {
        black_box(product(black_box(x), black_box(w))?);
    }
    Ok(start.elapsed().as_secs_f64() / repetitions as f64)
}

fn own_linear(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    ops::linear(x, w, None)
}

fn gemm_linear(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    gemm_matmul(x, &w.t()?)
}

/// A batch is shared out between threads as `ops::matmul` does it; a single product is shared out by the crate.
fn gemm_matmul(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let (lhs, rhs) = (with_batch(x)?, with_batch(w)?);
    let (batch, m, k) = lhs.dims3()?;
    let n = rhs.dim(2)?;
    let mut y = vec![0f32; batch * m * n];
    let (lhs_storage, lhs_layout) = lhs.storage_and_layout();
    let (rhs_storage, rhs_layout) = rhs.storage_and_layout();
    let (Storage::Cpu(lhs), Storage::Cpu(rhs)) = (&*lhs_storage, &*rhs_storage) else {
        bail!("the operands are not in memory");
    };
    let (lhs, rhs) = (lhs.as_slice::<f32>()?, rhs.as_slice::<f32>()?);
    let (lhs_strides, rhs_strides) = (strides(lhs_layout), strides(rhs_layout));
    let multiply = |index: usize, y: &mut [f32], parallelism: Parallelism| {
        let (lhs, rhs) = (
            &lhs[index * lhs_strides[0]..],
            &rhs[index * rhs_strides[0]..],
        );
        // SAFETY: the operands hold m × k and k × n elements at their strides, and `y` holds m × n.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                y.as_mut_ptr(),
                1,
                n as isize,
                false,
                lhs.as_ptr(),
                lhs_strides[2] as isize,
                lhs_strides[1] as isize,
                rhs.as_ptr(),
                rhs_strides[2] as isize,
                rhs_strides[1] as isize,
                0.0,
                1.0,
                false,
                false,
                false,
                parallelism,
            )
        }
    };
    match (batch, rayon::current_num_threads()) {
        (1, 1) => multiply(0, &mut y, Parallelism::None),
        (1, threads) => multiply(0, &mut y, Parallelism::Rayon(threads)),
        _ => y
            .par_chunks_mut(m * n)
            .enumerate()
            .for_each(|(index, y)| multiply(index, y, Parallelism::None)),
    }
    Tensor::from_vec(y, [&x.dims()[..x.rank() - 1], &[n]].concat(), x.device())
}

fn with_batch(x: &Tensor) -> Result<Tensor> {
    match x.rank() {
        2 => x.unsqueeze(0),
        _ => Ok(x.clone()),
    }
}

fn strides(layout: &Layout) -> [usize; 3] {
    assert_eq!(layout.start_offset(), 0);
    [0, 1, 2].map(|axis| layout.stride()[axis])
}

fn own_conv(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let [stride, padding, dilation] = [[1; 2], [w.dim(2)? / 2; 2], [1; 2]];
    let groups = x.dim(1)? / w.dim(1)?;
    ops::conv(x, w, None, &stride, &padding, &dilation, groups)
}

/// The image is unfolded first, and then multiplied.
fn gemm_conv(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let (channels_out, channels_in, kernel, _) = w.dims4()?;
    let (_, _, height, width) = x.dims4()?;
    let weights = w.reshape((channels_out, channels_in * kernel * kernel))?;
    let y = match kernel {
        1 => gemm_matmul(&weights, &x.reshape((channels_in, height * width))?)?,
        _ => gemm_matmul(&weights, &patches(x, kernel)?)?,
    };
    y.reshape((1, channels_out, height, width))
}

/// A row for each tap of each channel: the values that the tap meets at each output, with zeros around the image.
fn patches(x: &Tensor, kernel: usize) -> Result<Tensor> {
    let (_, channels, height, width) = x.dims4()?;
    let (storage, _) = x.storage_and_layout();
    let Storage::Cpu(values) = &*storage else {
        bail!("the image is not in memory");
    };
    let (values, taps, plane) = (values.as_slice::<f32>()?, kernel * kernel, height * width);
    let mut rows = vec![0f32; channels * taps * plane];
    rows.par_chunks_mut(plane)
        .enumerate()
        .for_each(|(row, out)| {
            let image = &values[row / taps * plane..][..plane];
            let (down, right) = (row % taps / kernel, row % kernel);
            let pad = kernel / 2;
            let (from, to) = (pad.saturating_sub(right), width.min(width + pad - right));
            for (y, out) in out.chunks_exact_mut(width).enumerate() {
                if let Some(line) = (y + down).checked_sub(pad).filter(|line| *line < height) {
                    let line = &image[line * width..][..width];
                    out[from..to].copy_from_slice(&line[from + right - pad..to + right - pad]);
                }
            }
        });
    Tensor::from_vec(rows, (channels * taps, plane), x.device())
}

/// Candle unfolds tiles of the image and multiplies them with the `gemm` crate, one group after the other.
fn candle_conv(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    x.conv2d(w, w.dim(2)? / 2, 1, 1, x.dim(1)? / w.dim(1)?)
}
