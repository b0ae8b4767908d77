//! The command line of a ported model: run it on a file of tensors, or record it along a golden trace.

use crate::check::{panic_message, said, write_tensors, Checker, Mode, Stopped};
use crate::gguf::open_weights;
use crate::inputs::{described, read_inputs, Input};
use crate::streamed;
use candle::{bail, DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe, Location};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: MODEL [--weights FILE] [--config FILE] INPUTS OUTPUTS
       MODEL [--weights FILE] [--config FILE] --check TRACE --record FILE [--mode chained|lockstep] [--stream READS]
       MODEL [--weights FILE] [--config FILE] --check TRACE --time SECONDS

INPUTS and OUTPUTS are safetensors files; the inputs have the names of the model's arguments.
With --check, the model runs on the inputs of a golden trace, and FILE gets the tensors that it computes; if it
stops before its end, FILE.stopped.json says why. With --stream, weights are in memory only while they are read:
READS is a JSON file that says which each module reads. With --time, the model runs again and again for so long,
unwatched, and what a run takes is printed as JSON.";

/// The command line, taken apart.
#[derive(Debug, Clone)]
pub struct Options {
    pub weights: PathBuf,
    pub config: PathBuf,
    files: Vec<PathBuf>,
    check: Option<Check>,
    stream: Option<PathBuf>,
    timing: Option<Timing>,
}

/// Runs on the inputs of a golden trace that nobody watches, to see how long they take.
#[derive(Debug, Clone)]
struct Timing {
    trace: PathBuf,
    budget: Duration,
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
    /// Ends the process with status 2 if the arguments are wrong.
    pub fn parse() -> Result<Self> {
        let options =
            Self::from_args(std::env::args().skip(1)).unwrap_or_else(|error| refuse(error));
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
            stream: None,
            timing: None,
        };
        let (mut trace, mut record, mut mode) = (None, None, Mode::default());
        let mut budget = None;
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
                "--stream" => options.stream = Some(value()?),
                "--mode" => {
                    mode = match value()?.to_str() {
                        Some("chained") => Mode::Chained,
                        Some("lockstep") => Mode::LockStep,
                        _ => bail!("--mode is chained or lockstep\n{USAGE}"),
                    }
                }
                "--time" => {
                    let seconds = value()?.to_str().and_then(|text| text.parse().ok());
                    match seconds.map(Duration::try_from_secs_f64) {
                        Some(Ok(time)) => budget = Some(time),
                        _ => bail!("--time is a number of seconds\n{USAGE}"),
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
        if options.stream.is_some() && trace.is_none() {
            bail!("--stream goes with --check\n{USAGE}")
        }
        match (trace, record, budget) {
            (Some(trace), None, Some(budget)) => options.timing = Some(Timing { trace, budget }),
            (Some(trace), Some(record), None) => {
                options.check = Some(Check {
                    trace,
                    record,
                    mode,
                });
            }
            (None, None, None) if options.files.len() == 2 => {}
            (None, None, None) => bail!("expected an input file and an output file\n{USAGE}"),
            _ => bail!("--check goes with either --record or --time\n{USAGE}"),
        }
        Ok(options)
    }

    /// The weights, from a safetensors or a GGUF file.
    pub fn weights(&self, dtype: DType, device: &Device) -> Result<VarBuilder<'static>> {
        match &self.stream {
            Some(reads) => streamed::var_builder(&self.weights, reads, dtype, device),
            None => open_weights(&self.weights, dtype, device),
        }
    }

    /// Reads a JSON file into the model's `Config`.
    pub fn read_config<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        let text = std::fs::read_to_string(&self.config)
            .map_err(|error| candle::Error::wrap(error).with_path(&self.config))?;
        serde_json::from_str(&text)
            .map_err(|error| candle::Error::wrap(error).with_path(&self.config))
    }

    /// The model that `new` makes. What the sizes in the config make impossible is an error, a size below 0, too.
    pub fn made<T>(&self, new: impl FnOnce() -> Result<T>) -> Result<T> {
        without_panic(new).map_err(|error| {
            error.context(format!(
                "no model can be made with {}",
                self.config.display()
            ))
        })
    }

    /// Runs `forward` on the tensors of `inputs`, as the command line asks; `cfg.NAME` in a shape is of the config. Ends the process with status 2 if the
    /// tensors of the input file are not those that the model takes, or the model cannot run on them.
    #[track_caller]
    pub fn run<I: Clone + Into<Input>>(
        &self,
        inputs: &[I],
        device: &Device,
        forward: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<()> {
        if let Some(check) = &self.check {
            return check.run(inputs.len(), device, forward, Location::caller());
        }
        if let Some(timing) = &self.timing {
            return timing.run(inputs.len(), device, forward);
        }
        let config = self.read_config().unwrap_or_default();
        let inputs: Vec<Input> = inputs
            .iter()
            .map(|input| input.clone().into().with_config(&config))
            .collect();
        match self.run_plain(&inputs, device, forward) {
            Ok(()) => Ok(()),
            Err(error) => refuse(error),
        }
    }

    fn run_plain(
        &self,
        inputs: &[Input],
        device: &Device,
        forward: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<()> {
        let given = read_inputs(&self.files[0], inputs, device)?;
        let outputs = without_panic(|| forward(&given)).map_err(|error| {
            let shapes: Vec<String> = inputs
                .iter()
                .zip(&given)
                .map(|(input, tensor)| format!("{} {}", input.name(), described(tensor)))
                .collect();
            error.context(format!("the model does not run on {}", shapes.join(", ")))
        })?;
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

impl Timing {
    /// Prints what a run takes, by the median. The first run, which warms up, counts only if it takes all the time.
    fn run(
        &self,
        inputs: usize,
        device: &Device,
        forward: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<()> {
        let checker = Checker::open(&self.trace, device)?;
        let given = golden_inputs(&checker, inputs)?;
        drop(checker);
        let timed = || {
            let start = Instant::now();
            forward(&given).map(|_| start.elapsed())
        };
        let (began, first) = (Instant::now(), timed()?);
        let mut taken = Vec::new();
        while began.elapsed() < self.budget {
            taken.push(timed()?);
        }
        taken.sort();
        let median = taken.get(taken.len() / 2).unwrap_or(&first);
        println!(
            "{}",
            serde_json::json!({
                "seconds": median.as_secs_f64(),
                "runs": taken.len().max(1),
                "threads": rayon::current_num_threads(),
                "peak_bytes": peak_bytes(),
            })
        );
        Ok(())
    }
}

/// The most memory that the process has had, if the system says so.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

fn golden_inputs(checker: &Checker, inputs: usize) -> Result<Vec<Tensor>> {
    let given: std::result::Result<Vec<_>, _> = (0..inputs)
        .map(|i| checker.golden(&format!("{}<{i}", checker.root())))
        .collect();
    Ok(given?)
}

impl Check {
    /// Runs the model; if it stops, the reason is written beside the record, and goes on to the caller.
    fn run(
        &self,
        inputs: usize,
        device: &Device,
        forward: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
        at: &Location,
    ) -> Result<()> {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.follow(inputs, device, forward, at)
        }));
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
        at: &Location,
    ) -> Result<()> {
        let checker = Checker::open(&self.trace, device)?
            .mode(self.mode)
            .record_to(&self.record);
        let given = golden_inputs(&checker, inputs)?;
        let outputs = checker.watch(|| forward(&given))?;
        checker.returned(&outputs, at)?;
        checker.finish()?;
        println!("recorded in {}", self.record.display());
        Ok(())
    }
}

/// Ends the process as bad input does: a message, and status 2.
fn refuse(error: candle::Error) -> ! {
    eprintln!("error: {}", said(&error));
    std::process::exit(2)
}

/// Runs a model; a panic in it, such as that of a size below 0, becomes an error with its message.
fn without_panic<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = catch_unwind(AssertUnwindSafe(run));
    std::panic::set_hook(before);
    outcome.unwrap_or_else(|panic| bail!("{}", panic_message(panic.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::read_tensors;
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
            &["--time", "1", "in", "out"],
            &["--check", "trace", "--time", "soon"],
            &["--check", "trace", "--record", "file", "--time", "1"],
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
        let mut recorded: Vec<String> = read_tensors(&record, &Device::Cpu)
            .unwrap()
            .into_keys()
            .collect();
        recorded.sort();
        let stopped = std::fs::read(folder.path().join("record.stopped.json")).ok();
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 2 + usize::from(stopped.is_some()));
        let stopped = stopped.map(|bytes| serde_json::from_slice(&bytes).unwrap());
        (outcome, recorded, stopped)
    }

    /// Runs `forward` on a file with the tensor `xs` of zeros; gives the error, and whether there are outputs.
    fn plain(
        shape: &[usize],
        forward: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> (Option<String>, bool) {
        let folder = tempfile::tempdir().unwrap();
        let [given, made] = ["given", "made"].map(|name| folder.path().join(name));
        let xs = Tensor::zeros(shape, candle::DType::F32, &Device::Cpu).unwrap();
        write_tensors([("xs", &xs)], &given).unwrap();
        let options = parse(&[given.to_str().unwrap(), made.to_str().unwrap()]).unwrap();
        let inputs = [("xs", candle::DType::F32, "[length]").into()];
        let outcome = options.run_plain(&inputs, &Device::Cpu, forward);
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 1 + usize::from(outcome.is_ok()));
        (outcome.err().map(|error| said(&error)), made.exists())
    }

    #[test]
    fn outputs_are_written_if_the_model_runs_and_else_nothing_is() {
        let same = |given: &[Tensor]| Ok(given.to_vec());
        assert_eq!(plain(&[3], same), (None, true));
        let (error, is_written) = plain(&[3, 1], same);
        assert!(error
            .unwrap()
            .contains("xs: it is f32 [3, 1], not f32 [length]"));
        assert!(!is_written);
        let (error, is_written) = plain(&[3], |given| Ok(vec![given[0].narrow(0, 2, 4)?]));
        let error = error.unwrap();
        assert!(
            error.starts_with("the model does not run on xs f32 [3]"),
            "{error}"
        );
        assert!(error.contains("narrow") && !is_written, "{error}");
    }

    #[test]
    fn a_panic_of_the_model_is_an_error_with_its_message() {
        let (error, is_written) = plain(&[3], |_| panic!("no size is below {}", 0));
        assert_eq!(
            error.unwrap(),
            "the model does not run on xs f32 [3]\npanicked: no size is below 0"
        );
        assert!(!is_written);
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
        assert_eq!(
            (recorded, stopped),
            (vec![">0".to_string(), "fc".to_string()], None)
        );
    }

    #[test]
    fn a_timing_writes_no_file_and_runs_more_than_once() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace");
        let golden = Tensor::new(&[1f32], &Device::Cpu).unwrap();
        write_tensors([("<0", &golden)], &trace).unwrap();
        let args = ["--check", trace.to_str().unwrap(), "--time", "0.01"];
        let options = parse(&args).unwrap();
        let runs = std::cell::Cell::new(0);
        let forward = |given: &[Tensor]| {
            runs.set(runs.get() + 1);
            Ok(vec![given[0].clone()])
        };
        options.run(&["xs"], &Device::Cpu, forward).unwrap();
        assert!(runs.get() > 1);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
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
