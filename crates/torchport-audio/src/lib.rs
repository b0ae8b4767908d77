//! Spectrograms, mel bands, cepstra and resampling as torch and torchaudio compute them, on candle tensors.
//!
//! Each transform is a struct that is made from a config, for signals of f32 or f64: `new(config, dtype)`, then
//! `forward(&signal)`. The last dimension of a signal is time, and those before it are kept. Complex numbers are pairs
//! in a last dimension of their own.

mod decibel;
mod frames;
mod inverse;
mod mel;
mod mfcc;
mod preemphasis;
mod resample;
mod sample;
mod spectrogram;
mod stft;
mod stream;
mod window;

pub use decibel::{AmplitudeToDb, Amplitudes, DecibelConfig};
pub use inverse::{istft, InverseStft};
pub use mel::{
    mel_filters, MelConfig, MelFormula, MelNorm, MelScale, MelSpectrogram, MelSpectrogramConfig,
};
pub use mfcc::{dct_matrix, Mfcc, MfccConfig};
pub use preemphasis::Preemphasis;
pub use resample::{Resample, ResampleConfig, ResampleWindow};
pub use spectrogram::{Spectrogram, SpectrogramConfig};
pub use stft::{stft, Normalized, Stft, StftConfig};
pub use stream::StftStream;
pub use torchport_runtime::ops::PadMode;
pub use window::Window;

/// The programs of the page about this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/audio.md")]
struct Page;
