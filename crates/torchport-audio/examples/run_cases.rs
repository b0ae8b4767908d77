//! Runs transforms on the tensors of a file: `run_cases cases.json inputs.safetensors outputs.safetensors`.
//!
//! A case is `{"transform", "config", "input", "length"}`. What it gives is written under its number; what it refuses is
//! printed as `{"number": "reason"}`. With `"runs"` the seconds of its fastest run are printed as well.

use candle::{bail, Device, Error, Result, Tensor};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;
use torchport_audio::*;

#[derive(serde::Deserialize)]
struct Case {
    transform: String,
    config: Value,
    input: String,
    /// Samples that the inverse gives, or that a stream is given at once.
    length: Option<usize>,
    #[serde(default)]
    runs: usize,
}

type Forward = Box<dyn Fn(&Tensor) -> Result<Tensor>>;

fn main() -> Result<()> {
    let [cases, inputs, outputs] = &std::env::args().skip(1).collect::<Vec<_>>()[..] else {
        bail!("needs cases.json inputs.safetensors outputs.safetensors")
    };
    let cases: Vec<Case> = serde_json::from_slice(&std::fs::read(cases)?).map_err(Error::wrap)?;
    let inputs = candle::safetensors::load(inputs, &Device::Cpu)?;
    let (mut found, mut refused, mut seconds) = (HashMap::new(), BTreeMap::new(), BTreeMap::new());
    for (index, case) in cases.iter().enumerate() {
        let Some(x) = inputs.get(&case.input) else {
            bail!("no input {:?}", case.input)
        };
        let result = transform(case, x).and_then(|f| {
            let y = f(x)?;
            let times = (0..case.runs).map(|_| {
                let start = Instant::now();
                f(x).map(|_| start.elapsed().as_secs_f64())
            });
            let times = times.collect::<Result<Vec<_>>>()?;
            if let Some(fastest) = times.into_iter().reduce(f64::min) {
                seconds.insert(index, fastest);
            }
            Ok(y)
        });
        match result {
            Ok(y) => {
                found.insert(index.to_string(), y.contiguous()?);
            }
            Err(error) => {
                refused.insert(index, error.to_string());
            }
        }
    }
    candle::safetensors::save(&found, outputs)?;
    println!(
        "{}",
        serde_json::json!({ "refused": refused, "seconds": seconds })
    );
    Ok(())
}

fn config<T: DeserializeOwned>(case: &Case) -> Result<T> {
    serde_json::from_value(case.config.clone()).map_err(Error::wrap)
}

fn transform(case: &Case, x: &Tensor) -> Result<Forward> {
    let (dtype, length) = (x.dtype(), case.length);
    Ok(match case.transform.as_str() {
        "stft" => {
            let stft = Stft::new(&config(case)?, dtype)?;
            Box::new(move |x| stft.forward(x))
        }
        "stream" => {
            let stft = Stft::new(&config(case)?, dtype)?;
            Box::new(move |x| streamed(&stft, x, length.unwrap_or(1)))
        }
        "istft" => {
            let inverse = InverseStft::new(&config(case)?, dtype)?;
            Box::new(move |z| inverse.forward(z, length))
        }
        "spectrogram" => {
            let spectrogram = Spectrogram::new(&config(case)?, dtype)?;
            Box::new(move |x| spectrogram.forward(x))
        }
        "mel_scale" => {
            let mel = MelScale::new(&config(case)?, dtype)?;
            Box::new(move |x| mel.forward(x))
        }
        "mel_spectrogram" => {
            let mel = MelSpectrogram::new(&config(case)?, dtype)?;
            Box::new(move |x| mel.forward(x))
        }
        "mfcc" => {
            let mfcc = Mfcc::new(&config(case)?, dtype)?;
            Box::new(move |x| mfcc.forward(x))
        }
        "amplitude_to_db" => {
            let decibels = AmplitudeToDb::new(&config(case)?)?;
            Box::new(move |x| decibels.forward(x))
        }
        "resample" => {
            let resample = Resample::new(&config(case)?, dtype)?;
            Box::new(move |x| resample.forward(x))
        }
        "preemphasis" => {
            let preemphasis = Preemphasis::new(config(case)?)?;
            Box::new(move |x| preemphasis.forward(x))
        }
        other => bail!("no transform {other:?}"),
    })
}

/// The frames of all chunks of `length` samples.
fn streamed(stft: &Stft, x: &Tensor, length: usize) -> Result<Tensor> {
    let mut stream = stft.stream()?;
    let (axis, total) = (x.rank() - 1, x.dim(x.rank() - 1)?);
    let mut frames = vec![];
    for start in (0..total).step_by(length) {
        let chunk = x.narrow(axis, start, length.min(total - start))?;
        frames.extend(stream.push(&chunk)?);
    }
    frames.extend(stream.finish()?);
    Tensor::cat(&frames, x.rank())
}
