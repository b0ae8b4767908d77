//! The short-time Fourier transform, as `torch.stft`.

use crate::frames::{padded, Framing};
use crate::sample::{must_be, shape, signals};
use crate::stream::StftStream;
use crate::window::Window;
use candle::{DType, Result, Tensor};
use serde::{Deserialize, Serialize};
use torchport_runtime::ops::PadMode;

/// What a spectrum is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalized {
    #[default]
    No,
    /// The root of `n_fft`: `normalized=True` of `torch.stft`, `"frame_length"` of torchaudio.
    FrameLength,
    /// The root of the window's energy: `normalized=True` and `"window"` of torchaudio.
    Window,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct StftConfig {
    pub n_fft: usize,
    /// A quarter of `n_fft` if there is none.
    pub hop_length: Option<usize>,
    /// `n_fft` if there is none.
    pub win_length: Option<usize>,
    pub window: Window,
    /// Whether a frame is centred on its sample: the signal gets `n_fft / 2` samples more on each side.
    pub center: bool,
    pub pad_mode: PadMode,
    pub normalized: Normalized,
    /// Whether the numbers that mirror the others are left out.
    pub onesided: bool,
}

impl Default for StftConfig {
    fn default() -> Self {
        Self {
            n_fft: 400,
            hop_length: None,
            win_length: None,
            window: Window::default(),
            center: true,
            pad_mode: PadMode::Reflect,
            normalized: Normalized::No,
            onesided: true,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Stft {
    pub(crate) framing: Framing,
    pub(crate) center: bool,
    pub(crate) pad_mode: PadMode,
}

impl Stft {
    pub fn new(config: &StftConfig, dtype: DType) -> Result<Self> {
        Ok(Self {
            framing: Framing::new(config, dtype)?,
            center: config.center,
            pad_mode: config.pad_mode,
        })
    }

    /// From `(…, time)` to `(…, bins, frames, 2)`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (rows, lead) = self.rows(x)?;
        spectra(&self.framing, &rows, lead)
    }

    /// The transform of a long signal that comes in chunks.
    pub fn stream(&self) -> Result<StftStream> {
        StftStream::new(self.clone())
    }

    /// Signals as rows of samples, with what centring adds, and the dimensions before time.
    pub(crate) fn rows<'a>(&self, x: &'a Tensor) -> Result<(Tensor, &'a [usize])> {
        must_be("stft", x, self.framing.dtype())?;
        let (rows, lead) = signals("stft", x)?;
        match self.center {
            true => Ok((padded(&rows, self.framing.n_fft / 2, self.pad_mode)?, lead)),
            false => Ok((rows, lead)),
        }
    }
}

/// `torch.stft` of a signal that is padded already, with the numbers of a window.
pub fn stft(
    x: &Tensor,
    window: Option<&Tensor>,
    n_fft: usize,
    hop_length: usize,
    win_length: usize,
    normalized: bool,
    onesided: bool,
) -> Result<Tensor> {
    let framing = Framing::of_window(
        window,
        n_fft,
        hop_length,
        win_length,
        normalized,
        onesided,
        x.dtype(),
    )?;
    let (rows, lead) = signals("stft", x)?;
    spectra(&framing, &rows, lead)
}

fn spectra(framing: &Framing, rows: &Tensor, lead: &[usize]) -> Result<Tensor> {
    let spectra = framing.spectra(rows)?;
    let (_, frames, bins, _) = spectra.dims4()?;
    let spectra = spectra.reshape(shape(lead, &[frames, bins, 2]))?;
    spectra.transpose(lead.len(), lead.len() + 1)
}
