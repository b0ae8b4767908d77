//! The place in a layer where a checker looks in.

use super::checker::State;
use candle::{Result, Tensor};
use candle_nn::VarBuilder;
use std::cell::RefCell;
use std::rc::Rc;

thread_local! {
    static WATCHING: RefCell<Option<Rc<RefCell<State>>>> = const { RefCell::new(None) };
}

/// Knows the path of the module it sits in, and shows that module's tensors to the checker that is watching.
#[derive(Debug, Clone)]
pub struct Probe {
    path: String,
}

impl Probe {
    pub fn new(vb: &VarBuilder) -> Self {
        Self { path: vb.prefix() }
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// Shows the tensor input number `index`, and gives the tensor to go on with.
    pub fn input(&self, index: usize, value: &Tensor) -> Result<Tensor> {
        match watching() {
            None => Ok(value.clone()),
            Some(state) => state.borrow_mut().input(&self.path, index, value),
        }
    }

    /// Shows what the module returns, and ends its call.
    pub fn output<T: Outputs>(&self, value: T) -> Result<T> {
        let Some(state) = watching() else {
            return Ok(value);
        };
        let mut state = state.borrow_mut();
        let value = value.map_tensors(|index, value| state.output(&self.path, index, value))?;
        state.end_call(&self.path);
        Ok(value)
    }

    /// Shows the value of one operation inside the module.
    pub fn node(&self, name: &str, value: Tensor) -> Result<Tensor> {
        match watching() {
            None => Ok(value),
            Some(state) => state.borrow_mut().node(&self.path, name, value),
        }
    }
}

fn watching() -> Option<Rc<RefCell<State>>> {
    WATCHING.with_borrow(Clone::clone)
}

/// Makes a checker the watching one until dropped, also when the run returns early or panics.
pub(super) struct Watch {
    before: Option<Rc<RefCell<State>>>,
}

impl Watch {
    pub(super) fn start(state: Rc<RefCell<State>>) -> Self {
        let before = WATCHING.replace(Some(state));
        Self { before }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHING.set(self.before.take());
    }
}

/// What a module returns: a tensor, a tuple or a `Vec` of them.
pub trait Outputs: Sized {
    fn map_tensors(self, map: impl FnMut(usize, Tensor) -> Result<Tensor>) -> Result<Self>;
}

impl Outputs for Tensor {
    fn map_tensors(self, mut map: impl FnMut(usize, Tensor) -> Result<Tensor>) -> Result<Self> {
        map(0, self)
    }
}

impl Outputs for Vec<Tensor> {
    fn map_tensors(self, mut map: impl FnMut(usize, Tensor) -> Result<Tensor>) -> Result<Self> {
        self.into_iter()
            .enumerate()
            .map(|(index, value)| map(index, value))
            .collect()
    }
}

/// Tuples of as many tensors as there are names, and of fewer: a model with a cache returns two for each layer.
macro_rules! tuple_outputs {
    (@type $name:ident) => { Tensor };
    ($first:ident) => {};
    ($first:ident $($name:ident)+) => {
        impl Outputs for (Tensor, $(tuple_outputs!(@type $name),)+) {
            fn map_tensors(
                self,
                mut map: impl FnMut(usize, Tensor) -> Result<Tensor>,
            ) -> Result<Self> {
                let ($first, $($name,)+) = self;
                let mut index = 0..;
                let mut next = |value| map(index.next().unwrap_or_default(), value);
                Ok((next($first)?, $(next($name)?,)+))
            }
        }
        tuple_outputs!($($name)+);
    };
}

tuple_outputs!(
    a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 b0 b1 b2 b3 b4 b5 b6 b7 b8 b9 c0 c1 c2 c3 c4 c5 c6 c7 c8 c9
    d0 d1 d2 d3 d4 d5 d6 d7 d8 d9 e0 e1 e2 e3 e4 e5 e6 e7 e8 e9 f0 f1 f2 f3 f4 f5 f6 f7 f8 f9
);
