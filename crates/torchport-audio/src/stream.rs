//! The short-time Fourier transform of a signal that comes in chunks, such as a file that does not fit in memory.

use crate::frames::{pad_after, pad_before, padded};
use crate::sample::{must_be, shape, signals};
use crate::stft::Stft;
use candle::{bail, Result, Tensor};
use torchport_runtime::ops::PadMode;

/// Takes chunks and gives the frames that they complete: together the same as `Stft::forward` of the whole signal.
#[derive(Debug, Clone)]
pub struct StftStream {
    stft: Stft,
    /// The dimensions before time, which all chunks share.
    lead: Vec<usize>,
    /// Samples that frames to come need, or all so far if they do not yet say what stands before the first.
    waiting: Option<Tensor>,
    /// The last samples, which say what stands behind them.
    last: Option<Tensor>,
    has_begun: bool,
    /// Samples to come that lie between two frames.
    skipped: usize,
    has_frames: bool,
}

impl StftStream {
    pub(crate) fn new(stft: Stft) -> Result<Self> {
        if stft.center && stft.pad_mode == PadMode::Circular {
            bail!(
                "stft: a stream cannot be padded in a circle, as its end is not known at its start"
            )
        }
        Ok(Self {
            has_begun: !stft.center,
            stft,
            lead: vec![],
            waiting: None,
            last: None,
            skipped: 0,
            has_frames: false,
        })
    }

    /// The frames `(…, bins, frames, 2)` that these samples `(…, time)` complete, or none.
    pub fn push(&mut self, chunk: &Tensor) -> Result<Option<Tensor>> {
        must_be("stft", chunk, self.stft.framing.dtype())?;
        let (rows, lead) = signals("stft", chunk)?;
        if self.waiting.is_some() && self.lead != lead {
            bail!(
                "stft: a chunk of {:?} after chunks of {:?}",
                lead,
                self.lead
            )
        }
        self.lead = lead.to_vec();
        let pad = self.stft.framing.n_fft / 2;
        let last = joined(self.last.as_ref(), &rows)?;
        let kept = last.dim(1)?.min(pad + 1);
        self.last = Some(last.narrow(1, last.dim(1)? - kept, kept)?.contiguous()?);
        let mut waiting = joined(self.waiting.as_ref(), &rows)?;
        if !self.has_begun && waiting.dim(1)? > pad {
            let first = waiting.narrow(1, 0, pad + 1)?;
            let before = pad_before(&first, pad, self.stft.pad_mode)?;
            waiting = Tensor::cat(&[&before, &waiting], 1)?;
            self.has_begun = true;
        }
        match self.has_begun {
            true => self.frames(waiting),
            false => {
                self.waiting = Some(waiting);
                Ok(None)
            }
        }
    }

    /// The frames that end behind the last sample, or none.
    pub fn finish(mut self) -> Result<Option<Tensor>> {
        let (Some(waiting), Some(last)) = (self.waiting.take(), self.last.take()) else {
            bail!("stft: a stream of no samples")
        };
        let (pad, mode) = (self.stft.framing.n_fft / 2, self.stft.pad_mode);
        let waiting = match (self.stft.center, self.has_begun) {
            (false, _) => waiting,
            (true, false) => padded(&waiting, pad, mode)?,
            (true, true) => Tensor::cat(&[&waiting, &pad_after(&last, pad, mode)?], 1)?,
        };
        let length = waiting.dim(1)?;
        let frames = self.frames(waiting)?;
        if !self.has_frames {
            self.stft.framing.count(length)?;
        }
        Ok(frames)
    }

    /// The frames that `waiting` has in full; what is left of it waits on.
    fn frames(&mut self, waiting: Tensor) -> Result<Option<Tensor>> {
        let framing = &self.stft.framing;
        let skipped = self.skipped.min(waiting.dim(1)?);
        let waiting = waiting.narrow(1, skipped, waiting.dim(1)? - skipped)?;
        self.skipped -= skipped;
        let length = waiting.dim(1)?;
        if length < framing.n_fft {
            self.waiting = Some(waiting.contiguous()?);
            return Ok(None);
        }
        let spectra = framing.spectra(&waiting.contiguous()?)?;
        let frames = spectra.dim(1)?;
        let next = frames * framing.hop_length;
        self.skipped += next.saturating_sub(length);
        let next = next.min(length);
        self.waiting = Some(waiting.narrow(1, next, length - next)?.contiguous()?);
        self.has_frames = true;
        let spectra = spectra.reshape(shape(&self.lead, &[frames, framing.bins(), 2]))?;
        let axis = self.lead.len();
        spectra.transpose(axis, axis + 1).map(Some)
    }
}

fn joined(before: Option<&Tensor>, rows: &Tensor) -> Result<Tensor> {
    match before {
        Some(before) if before.dim(1)? > 0 => Tensor::cat(&[before, rows], 1),
        _ => Ok(rows.clone()),
    }
}
