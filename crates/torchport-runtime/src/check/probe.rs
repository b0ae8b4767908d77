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
    pub fn input(&self, index: usize, value: impl AsRef<Tensor>) -> Result<Tensor> {
        let value = value.as_ref();
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
        state.end_call(&self.path)?;
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

/// What a module returns: a tensor, a tuple, an array or a `Vec` of them.
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

impl<const N: usize> Outputs for [Tensor; N] {
    fn map_tensors(self, map: impl FnMut(usize, Tensor) -> Result<Tensor>) -> Result<Self> {
        let mapped = Vec::from(self).map_tensors(map)?;
        mapped
            .try_into()
            .map_err(|_| candle::Error::Msg("an output is missing".into()))
    }
}

macro_rules! tuple_outputs {
    ($($index:tt: $tensor:ident),+) => {
        impl Outputs for ($($tensor,)+) {
            fn map_tensors(
                self,
                mut map: impl FnMut(usize, Tensor) -> Result<Tensor>,
            ) -> Result<Self> {
                Ok(($(map($index, self.$index)?,)+))
            }
        }
    };
}

tuple_outputs!(0: Tensor, 1: Tensor);
tuple_outputs!(0: Tensor, 1: Tensor, 2: Tensor);
tuple_outputs!(0: Tensor, 1: Tensor, 2: Tensor, 3: Tensor);
tuple_outputs!(0: Tensor, 1: Tensor, 2: Tensor, 3: Tensor, 4: Tensor);
tuple_outputs!(0: Tensor, 1: Tensor, 2: Tensor, 3: Tensor, 4: Tensor, 5: Tensor);
tuple_outputs!(0: Tensor, 1: Tensor, 2: Tensor, 3: Tensor, 4: Tensor, 5: Tensor, 6: Tensor);
tuple_outputs!(
    0: Tensor, 1: Tensor, 2: Tensor, 3: Tensor, 4: Tensor, 5: Tensor, 6: Tensor, 7: Tensor
);
