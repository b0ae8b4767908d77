//! The size of each number of a short-time Fourier transform, as `torchaudio.transforms.Spectrogram`.

use crate::sample::{for_sample, shape, Sample};
use crate::stft::{Normalized, Stft, StftConfig};
use crate::window::Window;
use candle::{bail, DType, Result, Tensor};
use serde::{Deserialize, Serialize};
use torchport_runtime::fourier::Complex;
use torchport_runtime::ops::PadMode;

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpectrogramConfig {
    pub n_fft: usize,
    /// `n_fft` if there is none.
    pub win_length: Option<usize>,
    /// Half of `win_length` if there is none.
    pub hop_length: Option<usize>,
    /// Zeros on each side of the signal.
    pub pad: usize,
    pub window: Window,
    /// 1 for sizes, 2 for their squares; none for the complex numbers themselves.
    pub power: Option<f64>,
    pub normalized: Normalized,
    pub center: bool,
    pub pad_mode: PadMode,
    pub onesided: bool,
}

impl Default for SpectrogramConfig {
    fn default() -> Self {
        Self {
            n_fft: 400,
            win_length: None,
            hop_length: None,
            pad: 0,
            window: Window::default(),
            power: Some(2.0),
            normalized: Normalized::No,
            center: true,
            pad_mode: PadMode::Reflect,
            onesided: true,
        }
    }
}

impl SpectrogramConfig {
    pub fn stft(&self) -> StftConfig {
        let win_length = self.win_length.unwrap_or(self.n_fft);
        StftConfig {
            n_fft: self.n_fft,
            hop_length: Some(self.hop_length.unwrap_or(win_length / 2)),
            win_length: Some(win_length),
            window: self.window.clone(),
            center: self.center,
            pad_mode: self.pad_mode,
            normalized: self.normalized,
            onesided: self.onesided,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Spectrogram {
    stft: Stft,
    pad: usize,
    power: Option<f64>,
}

impl Spectrogram {
    pub fn new(config: &SpectrogramConfig, dtype: DType) -> Result<Self> {
        if let Some(power) = config.power.filter(|p| !p.is_finite() || *p <= 0.0) {
            bail!("spectrogram: power is {power}, and has to be above 0")
        }
        Ok(Self {
            stft: Stft::new(&config.stft(), dtype)?,
            pad: config.pad,
            power: config.power,
        })
    }

    /// From `(…, time)` to `(…, bins, frames)`, or to `(…, bins, frames, 2)` without a power.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let Some(power) = self.power else {
            return self.stft.forward(&self.padded(x)?);
        };
        for_sample!(self.stft.framing.dtype(), T => {
            self.folded::<T>(x, self.stft.framing.bins(), power, |sizes, out| out.copy_from_slice(sizes))
        })
    }

    pub(crate) fn power(&self) -> Option<f64> {
        self.power
    }

    pub(crate) fn bins(&self) -> usize {
        self.stft.framing.bins()
    }

    pub(crate) fn dtype(&self) -> DType {
        self.stft.framing.dtype()
    }

    /// What `fold` makes of the sizes in each frame, `width` numbers: `(…, width, frames)`.
    pub(crate) fn folded<T: Sample>(
        &self,
        x: &Tensor,
        width: usize,
        power: f64,
        fold: impl Fn(&[T], &mut [T]) + Sync,
    ) -> Result<Tensor> {
        let x = self.padded(x)?;
        let (rows, lead) = self.stft.rows(&x)?;
        let framing = &self.stft.framing;
        let (half, bins) = (framing.half(), framing.bins());
        let (scale, memory) = (T::of(framing.scale), || vec![T::of(0.0); bins]);
        let frames = framing.each(&rows, width, memory, |spectrum, sizes, out| {
            write_sizes(&spectrum[..half], scale, power, &mut sizes[..half]);
            (half..bins).for_each(|k| sizes[k] = sizes[framing.n_fft - k]);
            fold(sizes, out);
        })?;
        let frames = frames.reshape(shape(lead, &[frames.dim(1)?, width]))?;
        frames.transpose(lead.len(), lead.len() + 1)
    }

    fn padded(&self, x: &Tensor) -> Result<Tensor> {
        match x.rank() {
            0 => Ok(x.clone()),
            _ if self.pad == 0 => Ok(x.clone()),
            rank => x.pad_with_zeros(rank - 1, self.pad, self.pad),
        }
    }
}

fn write_sizes<T: Sample>(spectrum: &[Complex<T>], scale: T, power: f64, sizes: &mut [T]) {
    let pairs = sizes.iter_mut().zip(spectrum);
    match power {
        2.0 => pairs.for_each(|(size, v)| {
            let (re, im) = (v.re * scale, v.im * scale);
            *size = re * re + im * im;
        }),
        1.0 => pairs.for_each(|(size, v)| *size = T::size(v.re * scale, v.im * scale)),
        _ => pairs.for_each(|(size, v)| {
            *size = T::of(T::size(v.re * scale, v.im * scale).wide().powf(power));
        }),
    }
}
