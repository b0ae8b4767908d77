//! The command line of a ported model: run it on a file of tensors, or check it against a golden trace.

use crate::check::{read_tensors, write_tensors, Checker, Mode};
use candle::{bail, Device, Result, Tensor};
use std::path::PathBuf;

const USAGE: &str = "\
usage: MODEL [--weights FILE] [--config FILE] INPUTS OUTPUTS
       MODEL [--weights FILE] [--config FILE] --check TRACE [--mode chained|lockstep] [--record FILE] [--summary FILE]

INPUTS and OUTPUTS are safetensors files; the inputs have the names of the model's arguments.";

/// What the command line asks for.
#[derive(Debug, Clone)]
pub struct Options {
    pub weights: PathBuf,
    pub config: PathBuf,
    files: Vec<PathBuf>,
    check: Option<PathBuf>,
    mode: Mode,
    record: Option<PathBuf>,
    summary: Option<PathBuf>,
}

impl Options {
    /// Reads the process's arguments; weights and config are looked for in the working directory by default.
    pub fn parse() -> Result<Self> {
        Self::from_args(std::env::args().skip(1))
    }

    fn from_args(mut args: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            weights: "model.safetensors".into(),
            config: "config.json".into(),
            files: Vec::new(),
            check: None,
            mode: Mode::Chained,
            record: None,
            summary: None,
        };
        while let Some(arg) = args.next() {
            let mut value = || match args.next() {
                Some(value) => Ok(PathBuf::from(value)),
                None => bail!("{arg} needs a value\n{USAGE}"),
            };
            match arg.as_str() {
                "--weights" => options.weights = value()?,
                "--config" => options.config = value()?,
                "--check" => options.check = Some(value()?),
                "--record" => options.record = Some(value()?),
                "--summary" => options.summary = Some(value()?),
                "--mode" => {
                    options.mode = match value()?.to_str() {
                        Some("chained") => Mode::Chained,
                        Some("lockstep") => Mode::LockStep,
                        _ => bail!("--mode is chained or lockstep\n{USAGE}"),
                    }
                }
                "--help" => {
                    println!("{USAGE}");
                    std::process::exit(0);
                }
                flag if flag.starts_with("--") => bail!("unknown option {flag}\n{USAGE}"),
                file => options.files.push(file.into()),
            }
        }
        if options.check.is_none() && options.files.len() != 2 {
            bail!("expected an input file and an output file\n{USAGE}");
        }
        Ok(options)
    }

    /// Reads a JSON file into the model's `Config`.
    pub fn read_config<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        let text = std::fs::read_to_string(&self.config)
            .map_err(|error| candle::Error::wrap(error).with_path(&self.config))?;
        serde_json::from_str(&text)
            .map_err(|error| candle::Error::wrap(error).with_path(&self.config))
    }

    /// Runs `forward` on the tensors named `inputs`, as the command line asks.
    pub fn run(
        &self,
        inputs: &[&str],
        device: &Device,
        forward: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<()> {
        match &self.check {
            Some(trace) => self.run_checked(trace, inputs.len(), device, forward),
            None => self.run_plain(inputs, device, forward),
        }
    }

    fn run_plain(
        &self,
        inputs: &[&str],
        device: &Device,
        forward: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<()> {
        let mut tensors = read_tensors(&self.files[0], device)?;
        let mut given = Vec::with_capacity(inputs.len());
        for name in inputs {
            match tensors.remove(*name) {
                Some(tensor) => given.push(tensor),
                None => bail!("{} has no tensor {name}", self.files[0].display()),
            }
        }
        let outputs = forward(&given)?;
        let named: Vec<(String, &Tensor)> = outputs
            .iter()
            .enumerate()
            .map(|(i, tensor)| (format!("output_{i}"), tensor))
            .collect();
        for (name, tensor) in &named {
            println!("{name}: {:?} {:?}", tensor.dims(), tensor.dtype());
        }
        write_tensors(named, &self.files[1])?;
        Ok(())
    }

    fn run_checked(
        &self,
        trace: &PathBuf,
        inputs: usize,
        device: &Device,
        forward: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<()> {
        let mut checker = Checker::open(trace, device)?.mode(self.mode);
        if let Some(path) = &self.record {
            checker = checker.record_to(path);
        }
        let given = (0..inputs)
            .map(|i| checker.golden(&format!("{}<{i}", checker.root())))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let outcome = checker.watch(|| forward(&given));
        let summary = checker.finish()?;
        if let Some(path) = &self.summary {
            summary.write_json(path)?;
        }
        println!(
            "{} of {} tensors agree",
            summary.comparisons.iter().filter(|c| c.passed).count(),
            summary.comparisons.len()
        );
        outcome.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options> {
        Options::from_args(args.iter().map(|arg| arg.to_string()))
    }

    #[test]
    fn two_files_are_inputs_and_outputs() {
        let options = parse(&["in.safetensors", "out.safetensors"]).unwrap();
        assert_eq!(options.files[1], PathBuf::from("out.safetensors"));
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for args in [
            &["one"][..],
            &["--mode", "fast"],
            &["--nope", "a", "b"],
            &["--check"],
        ] {
            let error = parse(args).unwrap_err().to_string();
            assert!(error.contains("usage"), "{error}");
        }
    }
}
