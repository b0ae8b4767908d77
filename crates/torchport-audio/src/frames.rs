//! Signals cut into frames, and the spectrum of each frame.

use crate::sample::{for_sample, sample_dtype, Sample};
use crate::stft::{Normalized, StftConfig};
use candle::{bail, DType, Device, Error, Result, Tensor};
use rayon::prelude::*;
use torchport_runtime::fourier::{self, Complex};
use torchport_runtime::ops::{self, tensor_like, with_values, PadMode};

/// Frames that one task computes with the same memory.
const BLOCK: usize = 16;

/// How a signal is cut into frames: what the transform, its inverse and the stream have in common.
#[derive(Debug, Clone)]
pub(crate) struct Framing {
    pub n_fft: usize,
    pub hop_length: usize,
    /// A number for each sample of a frame; zeros on both sides of a window that is shorter.
    pub window: Tensor,
    /// What each spectrum is multiplied by.
    pub scale: f64,
    pub onesided: bool,
}

impl Framing {
    pub fn new(config: &StftConfig, dtype: DType) -> Result<Self> {
        let dtype = sample_dtype("stft", dtype)?;
        let n_fft = config.n_fft;
        let win_length = config.win_length.unwrap_or(n_fft);
        let hop_length = config.hop_length.unwrap_or(n_fft / 4);
        check_sizes(n_fft, hop_length, win_length)?;
        let window = config.window.values(win_length)?;
        let energy = window.iter().map(|v| v * v).sum::<f64>();
        let scale = match config.normalized {
            Normalized::No => 1.0,
            Normalized::FrameLength => (n_fft as f64).powf(-0.5),
            Normalized::Window => 1.0 / energy.sqrt(),
        };
        let window = Tensor::new(window, &Device::Cpu)?.to_dtype(dtype)?;
        Ok(Self {
            n_fft,
            hop_length,
            window: widened(&window, n_fft)?,
            scale,
            onesided: config.onesided,
        })
    }

    /// With the numbers of a window instead of its name; ones if there is none.
    pub fn of_window(
        window: Option<&Tensor>,
        n_fft: usize,
        hop_length: usize,
        win_length: usize,
        normalized: bool,
        onesided: bool,
        dtype: DType,
    ) -> Result<Self> {
        let dtype = sample_dtype("stft", dtype)?;
        check_sizes(n_fft, hop_length, win_length)?;
        let window = match window {
            Some(window) if window.dims() != [win_length] => bail!(
                "window: it has the shape {:?}, and win_length is {win_length}",
                window.dims()
            ),
            Some(window) => window.to_dtype(dtype)?,
            None => Tensor::ones(win_length, dtype, &Device::Cpu)?,
        };
        let scale = match normalized {
            true => (n_fft as f64).powf(-0.5),
            false => 1.0,
        };
        Ok(Self {
            n_fft,
            hop_length,
            window: widened(&window, n_fft)?,
            scale,
            onesided,
        })
    }

    pub fn dtype(&self) -> DType {
        self.window.dtype()
    }

    /// The numbers of a real frame's spectrum that the others mirror.
    pub fn half(&self) -> usize {
        self.n_fft / 2 + 1
    }

    /// The numbers of a spectrum that are kept.
    pub fn bins(&self) -> usize {
        if self.onesided {
            self.half()
        } else {
            self.n_fft
        }
    }

    /// The frames of a signal.
    pub fn count(&self, length: usize) -> Result<usize> {
        match length.checked_sub(self.n_fft) {
            Some(rest) => Ok(rest / self.hop_length + 1),
            None => bail!(
                "stft: a signal of {length} samples (with its padding) is shorter than one frame of n_fft {}",
                self.n_fft
            ),
        }
    }

    /// What `fold` writes of each frame's spectrum, `width` numbers: from `(signals, samples)` to
    /// `(signals, frames, width)`. `scratch` makes memory that the frames of one task share.
    pub fn each<T: Sample, S>(
        &self,
        signals: &Tensor,
        width: usize,
        scratch: impl Fn() -> S + Sync,
        fold: impl Fn(&[Complex<T>], &mut S, &mut [T]) + Sync,
    ) -> Result<Tensor> {
        let (batch, length) = signals.dims2()?;
        let frames = self.count(length)?;
        let window: Vec<T> = self.window.to_vec1()?;
        let plan = fourier::of_real::<T>(self.n_fft);
        let task = |(block, out): (usize, &mut [T]), values: &[T]| {
            let mut frame = vec![T::of(0.0); self.n_fft];
            let mut spectrum = vec![Complex::new(T::of(0.0), T::of(0.0)); self.half()];
            let mut memory = plan.make_scratch_vec();
            let mut scratch = scratch();
            for (index, out) in out.chunks_exact_mut(width).enumerate() {
                let index = block * BLOCK + index;
                let start = index / frames * length + index % frames * self.hop_length;
                let samples = &values[start..start + self.n_fft];
                for ((v, &sample), &weight) in frame.iter_mut().zip(samples).zip(&window) {
                    *v = sample * weight;
                }
                plan.process_with_scratch(&mut frame, &mut spectrum, &mut memory)
                    .map_err(Error::wrap)?;
                fold(&spectrum, &mut scratch, out);
            }
            Ok::<_, Error>(())
        };
        let out = with_values::<T, _>(signals, |values| {
            let mut out = vec![T::of(0.0); batch * frames * width];
            let blocks = out.par_chunks_mut(BLOCK * width).enumerate();
            blocks.try_for_each(|block| task(block, values))?;
            Ok(out)
        })?;
        tensor_like(signals, out, &[batch, frames, width])
    }

    /// The spectra themselves, as `(signals, frames, bins, 2)`.
    pub fn spectra(&self, signals: &Tensor) -> Result<Tensor> {
        let (half, bins) = (self.half(), self.bins());
        let spectra = for_sample!(self.dtype(), T => {
            let scale = T::of(self.scale);
            self.each::<T, ()>(signals, 2 * bins, || (), |spectrum, (), out| {
                for (out, v) in out.chunks_exact_mut(2).zip(spectrum) {
                    (out[0], out[1]) = (v.re * scale, v.im * scale);
                }
                for k in half..bins {
                    let v = spectrum[self.n_fft - k];
                    (out[2 * k], out[2 * k + 1]) = (v.re * scale, -v.im * scale);
                }
            })
        })?;
        let (batch, frames, _) = spectra.dims3()?;
        spectra.reshape((batch, frames, bins, 2))
    }
}

fn check_sizes(n_fft: usize, hop_length: usize, win_length: usize) -> Result<()> {
    if n_fft == 0 {
        bail!("stft: n_fft is 0: a frame has at least one sample")
    }
    if hop_length == 0 {
        bail!("stft: hop_length is 0: every frame would be the first one")
    }
    if win_length == 0 || win_length > n_fft {
        bail!(
            "stft: win_length is {win_length}: a window has between 1 and n_fft = {n_fft} numbers"
        )
    }
    Ok(())
}

fn widened(window: &Tensor, n_fft: usize) -> Result<Tensor> {
    let rest = n_fft - window.dim(0)?;
    window.pad_with_zeros(0, rest / 2, rest - rest / 2)
}

/// Signals with `pad` samples more on each side.
pub(crate) fn padded(signals: &Tensor, pad: usize, mode: PadMode) -> Result<Tensor> {
    let length = signals.dim(1)?;
    let told = |error: Error| {
        let what = format!("stft: a signal of {length} samples is centred with n_fft / 2 = {pad} more on each side");
        error.context(what)
    };
    if length <= 2 * pad + 1 {
        return ops::pad(signals, &[pad as i64, pad as i64], mode).map_err(told);
    }
    // What is outside depends on few samples, and the many in between are only copied.
    let (before, after) = match mode {
        PadMode::Circular => (
            signals.narrow(1, length - pad, pad)?,
            signals.narrow(1, 0, pad)?,
        ),
        _ => (
            pad_before(&signals.narrow(1, 0, pad + 1)?, pad, mode)?,
            pad_after(&signals.narrow(1, length - pad - 1, pad + 1)?, pad, mode)?,
        ),
    };
    Tensor::cat(&[&before, signals, &after], 1)
}

/// What stands before signals of which the first samples are given.
pub(crate) fn pad_before(first: &Tensor, pad: usize, mode: PadMode) -> Result<Tensor> {
    ops::pad(first, &[pad as i64, 0], mode)?.narrow(1, 0, pad)
}

/// What stands behind signals of which the last samples are given.
pub(crate) fn pad_after(last: &Tensor, pad: usize, mode: PadMode) -> Result<Tensor> {
    ops::pad(last, &[0, pad as i64], mode)?.narrow(1, last.dim(1)?, pad)
}
