//! Follows a run of a port along a golden trace.

use super::compare::{Comparison, Tolerance};
use super::error::CheckError;
use super::key;
use super::probe::Watch;
use super::recorder::Recorder;
use super::stats::widen;
use super::summary::Summary;
use super::trace::{Trace, SCHEMA};
use candle::{Device, Tensor};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What a check hands on to the rest of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The computed tensor: errors add up as users will see them.
    #[default]
    Chained,
    /// The golden tensor: every difference is the layer's own.
    LockStep,
}

/// Compares every call of a port with a golden trace, and can record what the port computed.
pub struct Checker {
    trace: Rc<Trace>,
    device: Device,
    state: Rc<RefCell<State>>,
}

impl Checker {
    /// Opens the golden trace of the capture `name` in `dir`.
    pub fn load(name: &str, dir: impl AsRef<Path>, device: &Device) -> Result<Self, CheckError> {
        let file = format!("{name}_trace.safetensors");
        Self::open(dir.as_ref().join(file), device)
    }

    pub fn open(path: impl AsRef<Path>, device: &Device) -> Result<Self, CheckError> {
        let trace = Rc::new(Trace::open(path.as_ref())?);
        let state = State {
            unvisited: trace.calls(),
            trace: trace.clone(),
            mode: Mode::default(),
            tolerance: Tolerance::Default,
            recorder: None,
            begun: BTreeSet::new(),
            completed: HashMap::new(),
            comparisons: Vec::new(),
            error: None,
        };
        Ok(Self {
            trace,
            device: device.clone(),
            state: Rc::new(RefCell::new(state)),
        })
    }

    pub fn mode(self, mode: Mode) -> Self {
        self.state.borrow_mut().mode = mode;
        self
    }

    /// Asks for `|candidate - golden| <= atol + rtol * |golden|` at every element of any floating dtype. The
    /// default depends on the dtype (float32: 1e-4 and 1e-5), and its atol grows with a tensor's RMS above one.
    pub fn tolerance(self, rtol: f64, atol: f64) -> Self {
        self.state.borrow_mut().tolerance = Tolerance::Fixed { rtol, atol };
        self
    }

    /// Writes what the port computes to a safetensors file. It appears at [`Checker::finish`], or when the
    /// checker is dropped after a run that failed, with what there is.
    pub fn record_to(self, path: impl Into<PathBuf>) -> Self {
        self.state.borrow_mut().recorder = Some(Recorder::new(path.into()));
        self
    }

    /// The name of the root module's call.
    pub fn root(&self) -> &str {
        self.trace.root()
    }

    /// A tensor of the golden trace, such as the model's first input `"{root}<0"`.
    pub fn golden(&self, key: &str) -> Result<Tensor, CheckError> {
        self.trace.get(key, &self.device)
    }

    /// Runs a model on this thread with this checker watching.
    pub fn watch<T, E: Display>(&self, run: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let watch = Watch::start(self.state.clone());
        let result = run();
        drop(watch);
        if let Err(error) = &result {
            self.state.borrow_mut().error = Some(error.to_string());
        }
        result
    }

    /// Compares one tensor with the golden one of that name; it counts in the summary.
    pub fn verify(&self, name: &str, candidate: &Tensor) -> Result<Comparison, CheckError> {
        let golden = self.trace.get(name, candidate.device())?;
        let mut state = self.state.borrow_mut();
        state.record(name, candidate)?;
        state.visit(name);
        state.compare(name, &golden, candidate)
    }

    /// Ends the recording and sums up.
    pub fn finish(self) -> Result<Summary, CheckError> {
        let mut state = self.state.borrow_mut();
        state.finish_recording()?;
        Ok(Summary::new(
            state.mode,
            std::mem::take(&mut state.comparisons),
            std::mem::take(&mut state.unvisited).into_iter().collect(),
            state.error.take(),
        ))
    }
}

/// What a run leaves behind while probes report to it.
pub(super) struct State {
    trace: Rc<Trace>,
    mode: Mode,
    tolerance: Tolerance,
    recorder: Option<Recorder>,
    /// Calls that were made and have inputs.
    begun: BTreeSet<String>,
    /// Calls completed, by module path.
    completed: HashMap<String, usize>,
    comparisons: Vec<Comparison>,
    unvisited: BTreeSet<String>,
    error: Option<String>,
}

impl State {
    pub(super) fn input(
        &mut self,
        path: &str,
        index: usize,
        value: &Tensor,
    ) -> candle::Result<Tensor> {
        let call = self.call(path);
        let key = key::input(&call, index);
        self.begun.insert(call);
        Ok(self.follow(&key, value)?.unwrap_or_else(|| value.clone()))
    }

    pub(super) fn node(&mut self, path: &str, name: &str, value: Tensor) -> candle::Result<Tensor> {
        let key = key::node(&self.call(path), name);
        Ok(self.follow(&key, &value)?.unwrap_or(value))
    }

    pub(super) fn output(
        &mut self,
        path: &str,
        index: usize,
        value: Tensor,
    ) -> candle::Result<Tensor> {
        let key = key::output(&self.call(path), index);
        self.visit(&key);
        if let Some(next) = self.follow(&key, &value)? {
            return Ok(next);
        }
        self.record(&key, &value)?;
        self.comparisons.push(Comparison::missing(&key, &value));
        Ok(value)
    }

    pub(super) fn end_call(&mut self, path: &str) {
        *self.completed.entry(path.to_string()).or_default() += 1;
    }

    fn call(&self, path: &str) -> String {
        let name = match path {
            "" => self.trace.root(),
            path => path,
        };
        key::call(name, self.completed.get(path).copied().unwrap_or(0))
    }

    fn visit(&mut self, key: &str) {
        self.unvisited.remove(key);
    }

    /// Records and compares a value, and gives the one to go on with; `None` if nothing golden has that key.
    fn follow(&mut self, key: &str, value: &Tensor) -> Result<Option<Tensor>, CheckError> {
        let Some(golden) = self.trace.find(key, &Device::Cpu)? else {
            return Ok(None);
        };
        let comparison = self.compare(key, &golden, value)?;
        if self.is_worth_recording(key, &comparison) {
            self.record(key, value)?;
        }
        match self.mode {
            Mode::Chained => Ok(Some(value.clone())),
            Mode::LockStep => Ok(Some(in_place_of(value, golden)?)),
        }
    }

    fn compare(
        &mut self,
        key: &str,
        golden: &Tensor,
        candidate: &Tensor,
    ) -> Result<Comparison, CheckError> {
        let comparison = Comparison::new(key, golden, candidate, self.tolerance)?;
        self.comparisons.push(comparison.clone());
        Ok(comparison)
    }

    /// An input that is another call's output is recorded only when something else was handed over.
    fn is_worth_recording(&self, key: &str, comparison: &Comparison) -> bool {
        if !key::is_input(key) || !self.trace.is_alias(key) {
            return true;
        }
        self.mode == Mode::LockStep && !(comparison.passed && comparison.max_abs == 0.0)
    }

    fn record(&mut self, key: &str, value: &Tensor) -> Result<(), CheckError> {
        match &mut self.recorder {
            Some(recorder) => recorder.write(key, value),
            None => Ok(()),
        }
    }

    fn finish_recording(&mut self) -> Result<(), CheckError> {
        let Some(recorder) = self.recorder.take() else {
            return Ok(());
        };
        let metadata = serde_json::json!({
            "schema": SCHEMA,
            "root": self.trace.root(),
            "mode": self.mode,
            "begun": serde_json::to_string(&self.begun)?,
        });
        recorder.finish(metadata)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let path = self
            .recorder
            .as_ref()
            .map(|recorder| recorder.path().to_path_buf());
        if let (Err(error), Some(path)) = (self.finish_recording(), path) {
            eprintln!("could not write {}: {error}", path.display());
        }
    }
}

/// The golden tensor as the candidate's dtype where both are of one kind, so that a half-precision port of a
/// float32 model runs on; otherwise as torch had it.
fn in_place_of(candidate: &Tensor, golden: Tensor) -> candle::Result<Tensor> {
    let golden = match golden.dtype().is_float() == candidate.dtype().is_float() {
        true if golden.dtype() != candidate.dtype() => {
            widen(&golden)?.to_dtype(candidate.dtype())?
        }
        _ => golden,
    };
    golden.to_device(candidate.device())
}
