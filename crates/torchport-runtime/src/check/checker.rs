//! Follows a run of a port along a golden trace.

use super::compare::{is_same, Allowance, Comparison};
use super::error::CheckError;
use super::key;
use super::probe::Watch;
use super::recorder::Recorder;
use super::stats::widen;
use super::trace::{Trace, SCHEMA};
use crate::streamed;
use candle::{Device, Tensor};
use serde::Serialize;
use serde_json::json;
use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Which tensor a check hands on to the rest of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The computed tensor: errors add up as users will see them.
    #[default]
    Chained,
    /// The golden tensor: every difference is the layer's own.
    LockStep,
}

/// A golden trace, and a watcher that records what a port computes beside it.
pub struct Checker {
    trace: Rc<Trace>,
    device: Device,
    allowance: Option<Allowance>,
    state: Rc<RefCell<State>>,
}

impl Checker {
    /// Opens the golden trace of the capture `name` in `dir`.
    pub fn load(name: &str, dir: impl AsRef<Path>, device: &Device) -> Result<Self, CheckError> {
        let file = format!("{name}_trace.safetensors");
        Self::open(dir.as_ref().join(file), device)
    }

    /// Opens the golden trace in the file `path`.
    pub fn open(path: impl AsRef<Path>, device: &Device) -> Result<Self, CheckError> {
        let trace = Rc::new(Trace::open(path.as_ref())?);
        let state = State {
            trace: trace.clone(),
            mode: Mode::default(),
            recorder: None,
            events: Vec::new(),
            open: Vec::new(),
            completed: HashMap::new(),
            returned: None,
        };
        Ok(Self {
            trace,
            device: device.clone(),
            allowance: None,
            state: Rc::new(RefCell::new(state)),
        })
    }

    pub fn mode(self, mode: Mode) -> Self {
        self.state.borrow_mut().mode = mode;
        self
    }

    /// Makes [`Checker::verify`] ask for `|candidate - golden| <= atol + rtol * |golden|` at every element of
    /// any floating dtype, instead of the limits that the trace carries.
    pub fn tolerance(mut self, rtol: f64, atol: f64) -> Self {
        self.allowance = Some(Allowance { rtol, atol });
        self
    }

    /// Writes what the port computes to a safetensors file. The file appears at [`Checker::finish`]; after a run
    /// that failed, it appears when the checker is dropped and holds what was computed until then.
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
    pub fn watch<T>(&self, run: impl FnOnce() -> T) -> T {
        let watch = Watch::start(self.state.clone());
        let result = run();
        drop(watch);
        result
    }

    /// Records what the program gives in the end, which may be other than what its root showed: something may be
    /// done to it behind the root's check. `at` is the place in the source that hands it over.
    pub fn returned(&self, outputs: &[Tensor], at: &Location) -> Result<(), CheckError> {
        let mut state = self.state.borrow_mut();
        for (index, value) in outputs.iter().enumerate() {
            let key = key::returned(self.trace.root(), index);
            state.record(&key, value)?;
        }
        state.returned =
            Some(json!({ "number": outputs.len(), "at": format!("{}:{}", at.file(), at.line()) }));
        Ok(())
    }

    /// Compares one tensor with the golden one of that name. Integers and bools have to be equal. Floating
    /// values are judged by [`Checker::tolerance`] if it was called, and otherwise by the trace's own limit for
    /// `key`; without either, [`CheckError::NoLimit`] says what to do.
    pub fn verify(&self, key: &str, candidate: &Tensor) -> Result<Comparison, CheckError> {
        let golden = self.trace.get(key, candidate.device())?;
        self.state.borrow_mut().record(key, candidate)?;
        Comparison::new(key, &golden, candidate, || self.allowed(key))
    }

    fn allowed(&self, key: &str) -> Result<Allowance, CheckError> {
        match self.allowance {
            Some(allowance) => Ok(allowance),
            None => self.trace.limit(key).map(Allowance::absolute),
        }
    }

    /// Ends the recording: its file is complete when this returns.
    pub fn finish(self) -> Result<(), CheckError> {
        self.state.borrow_mut().finish_recording()
    }
}

/// A call that has begun and not ended.
struct Open {
    name: String,
    path: String,
}

/// The part of a checker that probes report to during a run.
pub(super) struct State {
    trace: Rc<Trace>,
    mode: Mode,
    recorder: Option<Recorder>,
    /// The calls as they began and ended.
    events: Vec<(&'static str, String)>,
    /// The calls that have begun and not ended, the innermost last.
    open: Vec<Open>,
    /// Calls completed, by module path.
    completed: HashMap<String, usize>,
    /// How many tensors the program gave in the end, and where.
    returned: Option<serde_json::Value>,
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
        self.begin_call(call, path)?;
        Ok(self.follow(&key, value)?.unwrap_or_else(|| value.clone()))
    }

    pub(super) fn node(&mut self, path: &str, name: &str, value: Tensor) -> candle::Result<Tensor> {
        let key = key::node(&self.call(path), name);
        Ok(self.follow(&key, &value)?.unwrap_or(value))
    }

    /// An output is recorded even if nothing golden has its key: the port then returns more than the model.
    pub(super) fn output(
        &mut self,
        path: &str,
        index: usize,
        value: Tensor,
    ) -> candle::Result<Tensor> {
        let key = key::output(&self.call(path), index);
        if let Some(next) = self.follow(&key, &value)? {
            return Ok(next);
        }
        self.record(&key, &value)?;
        Ok(value)
    }

    /// A call begins with its first input, or at its end if it has none.
    fn begin_call(&mut self, call: String, path: &str) -> candle::Result<()> {
        if self.open.iter().all(|open| open.name != call) {
            self.events.push(("enter", call.clone()));
            self.open.push(Open {
                name: call,
                path: path.to_string(),
            });
            streamed::begin(path)?;
        }
        Ok(())
    }

    pub(super) fn end_call(&mut self, path: &str) -> candle::Result<()> {
        let call = self.call(path);
        self.begin_call(call.clone(), path)?;
        while let Some(ended) = self.open.pop() {
            let is_last = ended.name == call;
            streamed::end(&ended.path)?;
            self.events.push(("exit", ended.name));
            if is_last {
                break;
            }
        }
        *self.completed.entry(path.to_string()).or_default() += 1;
        Ok(())
    }

    fn call(&self, path: &str) -> String {
        let name = match path {
            "" => self.trace.root(),
            path => path,
        };
        key::call(name, self.completed.get(path).copied().unwrap_or(0))
    }

    /// Records a value and gives the tensor to go on with, or `None` if nothing golden has that key.
    fn follow(&mut self, key: &str, value: &Tensor) -> Result<Option<Tensor>, CheckError> {
        if !self.trace.has(key) {
            return Ok(None);
        }
        let is_handed_on = key::is_input(key) && self.trace.is_alias(key);
        match self.mode {
            Mode::Chained => {
                if !is_handed_on {
                    self.record(key, value)?;
                }
                Ok(Some(value.clone()))
            }
            Mode::LockStep => {
                let golden = self.trace.get(key, &Device::Cpu)?;
                // Another call's output is recorded as an input only if something else arrived.
                if !is_handed_on || !is_same(&golden, value)? {
                    self.record(key, value)?;
                }
                Ok(Some(in_place_of(value, golden)?))
            }
        }
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
        let mut metadata = json!({
            "schema": SCHEMA,
            "root": self.trace.root(),
            "mode": self.mode,
            "events": serde_json::to_string(&self.events)?,
        });
        if let Some(returned) = &self.returned {
            metadata["returned"] = returned.to_string().into();
        }
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

/// The golden tensor in the candidate's dtype if both are floating or neither is, so that a half-precision port
/// of a float32 model runs on; otherwise the golden tensor in torch's dtype.
fn in_place_of(candidate: &Tensor, golden: Tensor) -> candle::Result<Tensor> {
    let golden = match golden.dtype().is_float() == candidate.dtype().is_float() {
        true if golden.dtype() != candidate.dtype() => {
            widen(&golden)?.to_dtype(candidate.dtype())?
        }
        _ => golden,
    };
    golden.to_device(candidate.device())
}
