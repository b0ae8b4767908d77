//! The signal of a short-time Fourier transform, as `torch.istft`.

use crate::frames::Framing;
use crate::sample::{for_sample, must_be, shape, Sample};
use crate::stft::StftConfig;
use candle::{bail, DType, Error, Result, Tensor};
use rayon::prelude::*;
use torchport_runtime::fourier::{self, Complex};
use torchport_runtime::ops::{tensor_like, with_values};

/// Below this, no window says what a sample was.
const LEAST_ENVELOPE: f64 = 1e-11;
/// Samples that one task adds up.
const BLOCK: usize = 8192;

#[derive(Debug, Clone)]
pub struct InverseStft {
    framing: Framing,
    center: bool,
}

impl InverseStft {
    pub fn new(config: &StftConfig, dtype: DType) -> Result<Self> {
        let framing = Framing::new(config, dtype)?;
        check_hop(&framing, config.win_length.unwrap_or(config.n_fft))?;
        Ok(Self {
            framing,
            center: config.center,
        })
    }

    /// From `(…, bins, frames, 2)` to `(…, time)`: `length` samples, or as many as the frames have without what
    /// centring added.
    pub fn forward(&self, z: &Tensor, length: Option<usize>) -> Result<Tensor> {
        signal(&self.framing, self.center, z, length)
    }
}

/// `torch.istft` with the numbers of a window.
#[allow(clippy::too_many_arguments)]
pub fn istft(
    z: &Tensor,
    window: Option<&Tensor>,
    n_fft: usize,
    hop_length: usize,
    win_length: usize,
    center: bool,
    normalized: bool,
    onesided: bool,
    length: Option<usize>,
) -> Result<Tensor> {
    let framing = Framing::of_window(
        window,
        n_fft,
        hop_length,
        win_length,
        normalized,
        onesided,
        z.dtype(),
    )?;
    check_hop(&framing, win_length)?;
    signal(&framing, center, z, length)
}

fn check_hop(framing: &Framing, win_length: usize) -> Result<()> {
    if framing.hop_length > win_length {
        bail!(
            "istft: hop_length {} is more than win_length {win_length}: samples between the windows are lost",
            framing.hop_length
        )
    }
    Ok(())
}

fn signal(framing: &Framing, center: bool, z: &Tensor, length: Option<usize>) -> Result<Tensor> {
    must_be("istft", z, framing.dtype())?;
    let [lead @ .., bins, frames, 2] = z.dims() else {
        bail!("istft: needs (…, bins, frames, 2), got {:?}", z.dims())
    };
    let (bins, frames) = (*bins, *frames);
    if bins != framing.bins() {
        let sides = if framing.onesided { "one" } else { "both" };
        bail!(
            "istft: n_fft {} has {} bins on {sides} side{}, and there are {bins}",
            framing.n_fft,
            framing.bins(),
            if framing.onesided { "" } else { "s" }
        )
    }
    if frames == 0 {
        bail!("istft: a transform of no frames: {:?}", z.dims())
    }
    let batch = lead.iter().product::<usize>();
    let z = z.reshape((batch, bins, frames, 2))?;
    let turned = z.transpose(1, 2)?;
    let (z, steps) = match turned.is_contiguous() {
        true => (&turned, [bins, 1]),
        false => (&z, [1, frames]),
    };
    let span = Span::new(framing, frames, center, length)?;
    for_sample!(framing.dtype(), T => {
        let window: Vec<T> = framing.window.to_vec1()?;
        let out = with_values::<T, _>(z, |values| {
            let pieces = pieces::<T>(framing, values, frames, steps, &window)?;
            added_up(framing, &pieces, &window, batch, &span)
        })?;
        tensor_like(z, out, &shape(lead, &[span.length]))
    })
}

/// Which samples of all that the frames reach are asked for.
struct Span {
    frames: usize,
    /// The first of them.
    start: usize,
    length: usize,
    /// How many of them the frames reach; the others are zeros.
    reached: usize,
}

impl Span {
    fn new(framing: &Framing, frames: usize, center: bool, length: Option<usize>) -> Result<Self> {
        let whole = framing.n_fft + framing.hop_length * (frames - 1);
        let start = if center { framing.n_fft / 2 } else { 0 };
        let rest = (whole - start).saturating_sub(if length.is_none() { start } else { 0 });
        let length = length.unwrap_or(rest);
        if length == 0 {
            bail!("istft: {frames} frames leave no samples")
        }
        Ok(Self {
            frames,
            start,
            length,
            reached: length.min(whole - start),
        })
    }
}

/// Frames that one task takes back.
const TOGETHER: usize = 16;

/// Each frame back in time, multiplied by the window. `steps` are from a frame to the next, and from a bin to the next.
fn pieces<T: Sample>(
    framing: &Framing,
    values: &[T],
    frames: usize,
    steps: [usize; 2],
    window: &[T],
) -> Result<Vec<T>> {
    let (n_fft, half) = (framing.n_fft, framing.half());
    let plan = fourier::to_real::<T>(n_fft);
    let back = T::of(1.0 / (framing.scale * n_fft as f64));
    let window: Vec<T> = window.iter().map(|&w| w * back).collect();
    let count = values.len() / (2 * framing.bins());
    let mut pieces = vec![T::of(0.0); count * n_fft];
    let tasks = pieces.par_chunks_mut(TOGETHER * n_fft).enumerate();
    tasks.try_for_each(|(task, pieces)| {
        let zero = Complex::new(T::of(0.0), T::of(0.0));
        let mut spectra = vec![zero; TOGETHER * half];
        let mut memory = plan.make_scratch_vec();
        let starts: Vec<usize> = (0..pieces.len() / n_fft)
            .map(|index| task * TOGETHER + index)
            .map(|index| index / frames * frames * framing.bins() + index % frames * steps[0])
            .collect();
        // What is on the other side is not looked at, as in torch.
        for k in 0..half {
            for (index, start) in starts.iter().enumerate() {
                let place = 2 * (start + k * steps[1]);
                spectra[index * half + k] = Complex::new(values[place], values[place + 1]);
            }
        }
        for (piece, spectrum) in pieces.chunks_mut(n_fft).zip(spectra.chunks_mut(half)) {
            fourier::make_hermitian(spectrum, n_fft);
            plan.process_with_scratch(spectrum, piece, &mut memory)
                .map_err(Error::wrap)?;
            piece.iter_mut().zip(&window).for_each(|(v, &w)| *v *= w);
        }
        Ok::<_, Error>(())
    })?;
    Ok(pieces)
}

/// The frames laid over each other, divided by what the windows let through.
fn added_up<T: Sample>(
    framing: &Framing,
    pieces: &[T],
    window: &[T],
    batch: usize,
    span: &Span,
) -> Result<Vec<T>> {
    let (n_fft, hop) = (framing.n_fft, framing.hop_length);
    let squares: Vec<T> = window.iter().map(|&w| w * w).collect();
    let envelope = laid_over(span, n_fft, hop, |_| &squares);
    if let Some(place) = envelope
        .iter()
        .position(|v| v.wide().abs() < LEAST_ENVELOPE)
    {
        bail!(
            "istft: the windows let nothing through at sample {place}: their squares add up to {:e}",
            envelope[place].wide()
        )
    }
    let mut out = Vec::with_capacity(batch * span.length);
    for pieces in pieces.chunks(span.frames * n_fft) {
        let mut signal = laid_over(span, n_fft, hop, |frame| &pieces[frame * n_fft..][..n_fft]);
        signal.iter_mut().zip(&envelope).for_each(|(v, &e)| *v /= e);
        signal.resize(span.length, T::of(0.0));
        out.append(&mut signal);
    }
    Ok(out)
}

/// The sum of what the frames have at each of the samples that are asked for and reached.
fn laid_over<'a, T: Sample>(
    span: &Span,
    n_fft: usize,
    hop: usize,
    frame: impl Fn(usize) -> &'a [T] + Sync,
) -> Vec<T> {
    let mut out = vec![T::of(0.0); span.reached];
    out.par_chunks_mut(BLOCK)
        .enumerate()
        .for_each(|(block, out)| {
            let first = span.start + block * BLOCK;
            let last = first + out.len();
            let from = (first + 1).saturating_sub(n_fft).div_ceil(hop);
            let to = last.div_ceil(hop).min(span.frames);
            for index in from..to {
                let begin = index * hop;
                let (low, high) = (begin.max(first), (begin + n_fft).min(last));
                let values = &frame(index)[low - begin..high - begin];
                let sums = &mut out[low - first..high - first];
                sums.iter_mut().zip(values).for_each(|(sum, &v)| *sum += v);
            }
        });
    out
}
