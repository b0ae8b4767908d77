//! The command line of a ported model: run it on a file of tensors, or record it along a golden trace.

use crate::check::{read_tensors, write_tensors, Checker, Mode, Stopped};
use candle::{bail, Device, Result, Tensor};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::PathBuf;

const USAGE: &str = "\
usage: MODEL [--weights FILE] [--config FILE] INPUTS OUTPUTS
       MODEL [--weights FILE] [--config FILE] --check TRACE --record FILE [--mode chained|lockstep]

INPUTS and OUTPUTS are safetensors files; the inputs have the names of the model's arguments.
With --check, the model runs on the inputs of a golden trace, and FILE gets the tensors that it computes; if it
stops before its end, FILE.stopped.json says why.";

/// The command line, taken apart.
#[derive(Debug, Clone)]
pub struct Options {
    pub weights: PathBuf,
    pub config: PathBuf,
    files: Vec<PathBuf>,
    check: Option<Check>,
}

/// A run along a golden trace.
#[derive(Debug, Clone)]
struct Check {
    trace: PathBuf,
    record: PathBuf,
    mode: Mode,
}

impl Options {
    /// Reads the process's arguments; weights and config are looked for in the working directory by default.
    pub fn parse() -> Result<Self> {
        let options = Self::from_args(std::env::args().skip(1))?;
        if let Some(check) = &options.check {
            Stopped::forget(&check.record)?;
        }
        Ok(options)
    }

    fn from_args(mut args: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            weights: "model.safetensors".into(),
            config: "config.json".into(),
            files: Vec::new(),
            check: None,
        };
        let (mut trace, mut record, mut mode) = (None, None, Mode::default());
        while let Some(arg) = args.next() {
            let mut value = || match args.next() {
                Some(value) => Ok(PathBuf::from(value)),
                None => bail!("{arg} needs a value\n{USAGE}"),
            };
            match arg.as_str() {
                "--weights" => options.weights = value()?,
                "--config" => options.config = value()?,
                "--check" => trace = Some(value()?),
                "--record" => record = Some(value()?),
                "--mode" => {
                    mode = match value()?.to_str() {
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
        match (trace, record) {
            (Some(trace), Some(record)) => {
                options.check = Some(Check {
                    trace,
                    record,
                    mode,
                });
            }
            (None, None) if options.files.len() == 2 => {}
            (None, None) => bail!("expected an input file and an output file\n{USAGE}"),
            _ => bail!("--check and --record go together\n{USAGE}"),
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
            Some(check) => check.run(inputs.len(), device, forward),
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
}

impl Check {
    /// Runs the model; if it stops, the reason is written beside the record, and goes on to the caller.
    fn run(
        &self,
        inputs: usize,
        device: &Device,
        forward: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<()> {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.follow(inputs, device, forward)));
        let stopped = match &outcome {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Stopped::by_error(error)),
            Err(panic) => Some(Stopped::by_panic(panic.as_ref())),
        };
        if let Some(Err(error)) = stopped.map(|stopped| stopped.write(&self.record)) {
            eprintln!("could not write why the run stopped: {error}");
        }
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn follow(
        &self,
        inputs: usize,
        device: &Device,
        forward: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<()> {
        let checker = Checker::open(&self.trace, device)?
            .mode(self.mode)
            .record_to(&self.record);
        let given = (0..inputs)
            .map(|i| checker.golden(&format!("{}<{i}", checker.root())))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        checker.watch(|| forward(&given))?;
        checker.finish()?;
        println!("recorded in {}", self.record.display());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

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
            &["--check", "trace"],
            &["--record", "file", "in", "out"],
        ] {
            let error = parse(args).unwrap_err().to_string();
            assert!(error.contains("usage"), "{error}");
        }
    }

    /// Runs `forward` on the one input of a trace; gives what it recorded and what it left about its stop.
    fn checked(
        forward: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> (std::thread::Result<Result<()>>, Vec<String>, Option<Value>) {
        let folder = tempfile::tempdir().unwrap();
        let [trace, record] = ["trace", "record"].map(|name| folder.path().join(name));
        let golden = Tensor::new(&[1f32], &Device::Cpu).unwrap();
        write_tensors([("<0", &golden)], &trace).unwrap();
        let args = [
            "--check",
            trace.to_str().unwrap(),
            "--record",
            record.to_str().unwrap(),
        ];
        let options = parse(&args).unwrap();
        let run = AssertUnwindSafe(|| options.run(&["xs"], &Device::Cpu, forward));
        let outcome = catch_unwind(run);
        let recorded = read_tensors(&record, &Device::Cpu)
            .unwrap()
            .into_keys()
            .collect();
        let stopped = std::fs::read(folder.path().join("record.stopped.json")).ok();
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 2 + usize::from(stopped.is_some()));
        let stopped = stopped.map(|bytes| serde_json::from_slice(&bytes).unwrap());
        (outcome, recorded, stopped)
    }

    /// A layer that reports its output as the root module does.
    fn layer(given: &[Tensor]) -> Result<Tensor> {
        let vb = candle_nn::VarBuilder::zeros(candle::DType::F32, &Device::Cpu);
        crate::Probe::new(&vb.pp("fc")).output(given[0].clone())
    }

    #[test]
    fn a_run_to_the_end_leaves_its_record_alone() {
        let (outcome, recorded, stopped) = checked(|given| Ok(vec![layer(given)?]));
        assert!(outcome.unwrap().is_ok());
        assert_eq!((recorded, stopped), (vec!["fc".to_string()], None));
    }

    #[test]
    fn a_todo_that_is_reached_is_named_beside_the_record() {
        let message = "aten.foo.default in Net at net.py:3: no row maps it";
        let (outcome, recorded, stopped) = checked(|given| {
            layer(given)?;
            Ok(vec![crate::todo(message)?])
        });
        let text = outcome.unwrap().unwrap_err().to_string();
        assert!(
            text.starts_with(&format!("TODO(torchport): {message}")),
            "{text}"
        );
        assert_eq!(recorded, ["fc"]);
        let expected = json!({
            "schema": 1,
            "message": format!("TODO(torchport): {message}"),
            "todo": {"op": "aten.foo.default", "message": message},
        });
        assert_eq!(stopped, Some(expected));
    }

    #[test]
    fn an_error_and_a_panic_are_reported_beside_the_record() {
        let (outcome, _, stopped) = checked(|_| bail!("no kernel"));
        assert!(outcome.unwrap().is_err());
        let expected = json!({"schema": 1, "message": "no kernel", "todo": null});
        assert_eq!(stopped, Some(expected));
        let (outcome, recorded, stopped) = checked(|given| {
            layer(given)?;
            panic!("index {} is out of bounds", 99)
        });
        assert!(outcome.is_err());
        assert_eq!(recorded, ["fc"]);
        let message = "panicked: index 99 is out of bounds";
        let expected = json!({"schema": 1, "message": message, "todo": null});
        assert_eq!(stopped, Some(expected));
    }
}
