//! Layers of cells on top of each other, each in one or both directions, over a sequence.

use super::cell::{working_dtype, Cell, Weights};
use super::RnnConfig;
use crate::ops;
use candle::{DType, Result, Tensor, D};
use candle_nn::VarBuilder;

#[derive(Debug, Clone)]
pub(super) struct Stack<C, const STATES: usize> {
    cell: C,
    /// By layer, then by direction.
    layers: Vec<Vec<Weights>>,
    state_sizes: [usize; STATES],
    batch_first: bool,
    dtype: DType,
}

impl<C: Cell<STATES>, const STATES: usize> Stack<C, STATES> {
    /// `state_sizes`: the last dimension of each state, hidden first.
    pub(super) fn new(
        cell: C,
        input_size: usize,
        hidden_size: usize,
        state_sizes: [usize; STATES],
        cfg: &RnnConfig,
        vb: &VarBuilder,
    ) -> Result<Self> {
        let directions: &[&str] = match cfg.bidirectional {
            true => &["", "_reverse"],
            false => &[""],
        };
        let layers = (0..cfg.num_layers)
            .map(|layer| {
                let input_size = match layer {
                    0 => input_size,
                    _ => state_sizes[0] * directions.len(),
                };
                directions
                    .iter()
                    .map(|direction| {
                        let suffix = format!("l{layer}{direction}");
                        Weights::new(C::GATES, input_size, hidden_size, cfg, &suffix, vb)
                    })
                    .collect()
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            cell,
            layers,
            state_sizes,
            batch_first: cfg.batch_first,
            dtype: vb.dtype(),
        })
    }

    /// Layers whose weights are known, by layer and direction.
    pub(super) fn of(
        cell: C,
        layers: Vec<Vec<Weights>>,
        state_sizes: [usize; STATES],
        batch_first: bool,
        dtype: DType,
    ) -> Self {
        Self {
            cell,
            layers,
            state_sizes,
            batch_first,
            dtype,
        }
    }

    /// The output of the last layer at every step, and the states after the last step. States have one row for
    /// each layer and direction; zeros where `initial` gives none.
    pub(super) fn forward(
        &self,
        xs: &Tensor,
        initial: Option<[&Tensor; STATES]>,
    ) -> Result<(Tensor, [Tensor; STATES])> {
        let batched = match xs.rank() {
            2 => false,
            3 => true,
            rank => candle::bail!("a recurrent layer takes 2 or 3 dimensions, got {rank}"),
        };
        let steps_first = match (batched, self.batch_first) {
            (false, _) => xs.unsqueeze(1)?,
            (true, true) => xs.transpose(0, 1)?,
            (true, false) => xs.clone(),
        };
        let xs = self.widen(steps_first)?;
        let initial = match initial {
            None => self.zeros(&xs)?,
            Some(states) if batched => try_map(states, |state| self.widen(state.clone()))?,
            Some(states) => try_map(states, |state| self.widen(state.unsqueeze(1)?))?,
        };
        let (ys, states) = self.run(xs, &initial, None)?;
        let ys = ys.to_dtype(self.dtype)?;
        let states = try_map(states, |state| state.to_dtype(self.dtype))?;
        match (batched, self.batch_first) {
            (false, _) => Ok((ys.squeeze(1)?, try_map(states, |state| state.squeeze(1))?)),
            (true, true) => Ok((ys.transpose(0, 1)?.contiguous()?, states)),
            (true, false) => Ok((ys, states)),
        }
    }

    /// The same for rows of different lengths, (steps, batch, input): behind its end a row has zeros, and its states
    /// stay what they were.
    pub(super) fn forward_packed(
        &self,
        xs: &Tensor,
        lengths: &Tensor,
        initial: [&Tensor; STATES],
    ) -> Result<(Tensor, [Tensor; STATES])> {
        let xs = self.widen(xs.clone())?;
        let initial = try_map(initial, |state| self.widen(state.clone()))?;
        let inside = ops::is_inside(xs.dim(0)?, lengths)?.unsqueeze(2)?;
        let (ys, states) = self.run(xs, &initial, Some(&inside))?;
        let states = try_map(states, |state| state.to_dtype(self.dtype))?;
        Ok((ys.to_dtype(self.dtype)?, states))
    }

    fn widen(&self, values: Tensor) -> Result<Tensor> {
        if values.dtype() != self.dtype {
            let (actual, expected) = (values.dtype(), self.dtype);
            candle::bail!("a recurrent layer with {expected:?} weights got {actual:?}")
        }
        values.to_dtype(working_dtype(self.dtype))
    }

    fn state_shapes(&self, xs: &Tensor) -> Result<[(usize, usize, usize); STATES]> {
        let rows = self.layers.iter().map(Vec::len).sum();
        let batch = xs.dim(1)?;
        Ok(self.state_sizes.map(|size| (rows, batch, size)))
    }

    fn zeros(&self, xs: &Tensor) -> Result<[Tensor; STATES]> {
        try_map(self.state_shapes(xs)?, |shape| {
            Tensor::zeros(shape, xs.dtype(), xs.device())
        })
    }

    /// Over (steps, batch, input), from states of (layers × directions, batch, size). `inside` says for each step which
    /// rows have one.
    fn run(
        &self,
        xs: Tensor,
        initial: &[Tensor; STATES],
        inside: Option<&Tensor>,
    ) -> Result<(Tensor, [Tensor; STATES])> {
        if xs.dim(0)? == 0 {
            candle::bail!("a recurrent layer needs a sequence of at least one step")
        }
        for (state, shape) in initial.iter().zip(self.state_shapes(&xs)?) {
            if state.dims3()? != shape {
                candle::bail!("initial state {:?} instead of {shape:?}", state.dims())
            }
        }
        let mut xs = xs;
        let mut last: [Vec<Tensor>; STATES] = std::array::from_fn(|_| Vec::new());
        let mut row = 0;
        for directions in &self.layers {
            let mut outputs = Vec::with_capacity(directions.len());
            for (direction, weights) in directions.iter().enumerate() {
                let state = try_map(initial.each_ref(), |state| state.get(row))?;
                let (ys, state) = self.scan(weights, &xs, state, direction == 1, inside)?;
                outputs.push(ys);
                for (states, state) in last.iter_mut().zip(state) {
                    states.push(state);
                }
                row += 1;
            }
            xs = Tensor::cat(&outputs, D::Minus1)?;
        }
        Ok((xs, try_map(last, |states| Tensor::stack(&states, 0))?))
    }

    /// One layer in one direction over all steps.
    fn scan(
        &self,
        weights: &Weights,
        xs: &Tensor,
        mut state: [Tensor; STATES],
        backwards: bool,
        inside: Option<&Tensor>,
    ) -> Result<(Tensor, [Tensor; STATES])> {
        let projected = weights.project_input(xs)?;
        let steps = projected.dim(0)?;
        let mut outputs = Vec::with_capacity(steps);
        for step in 0..steps {
            let at = if backwards { steps - 1 - step } else { step };
            let next = self.cell.step(weights, &projected.get(at)?, &state)?;
            let Some(inside) = inside else {
                outputs.push(next[0].clone());
                state = next;
                continue;
            };
            let has_step = inside.get(at)?;
            outputs.push(kept(&has_step, &next[0], &next[0].zeros_like()?)?);
            let mut before = state.iter();
            state = try_map(next, |next| match before.next() {
                Some(state) => kept(&has_step, &next, state),
                None => Ok(next),
            })?;
        }
        if backwards {
            outputs.reverse();
        }
        Ok((Tensor::stack(&outputs, 0)?, state))
    }
}

/// The rows of `next` that have a step, and those of `other` that have none.
fn kept(has_step: &Tensor, next: &Tensor, other: &Tensor) -> Result<Tensor> {
    has_step.broadcast_as(next.shape())?.where_cond(next, other)
}

/// `array::try_map` is not stable.
fn try_map<T, U, const N: usize>(
    values: [T; N],
    map: impl FnMut(T) -> Result<U>,
) -> Result<[U; N]> {
    let mapped = values.into_iter().map(map).collect::<Result<Vec<U>>>()?;
    match mapped.try_into() {
        Ok(mapped) => Ok(mapped),
        Err(_) => unreachable!("as many as there were"),
    }
}
