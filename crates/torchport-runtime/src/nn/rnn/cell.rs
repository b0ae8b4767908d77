//! One recurrent layer in one direction: its weights, and what the kinds of cells have in common.

use super::RnnConfig;
use crate::ops;
use candle::{DType, Result, Tensor};
use candle_nn::VarBuilder;

/// A kind of cell with `STATES` state tensors, of which the first is the hidden state that is also the output.
pub trait Cell<const STATES: usize> {
    /// Blocks of `hidden_size` rows in the weights.
    const GATES: usize;

    /// The state after one step; `projected` is this step's input times the input weights.
    fn step(
        &self,
        weights: &Weights,
        projected: &Tensor,
        state: &[Tensor; STATES],
    ) -> Result<[Tensor; STATES]>;
}

#[derive(Debug, Clone)]
pub struct Weights {
    input: Tensor,
    hidden: Tensor,
    input_bias: Option<Tensor>,
    hidden_bias: Option<Tensor>,
    projection: Option<Tensor>,
}

impl Weights {
    /// `suffix` is torch's `l0`, `l0_reverse`, `l1`, …
    pub(super) fn new(
        gates: usize,
        input_size: usize,
        hidden_size: usize,
        cfg: &RnnConfig,
        suffix: &str,
        vb: &VarBuilder,
    ) -> Result<Self> {
        let rows = gates * hidden_size;
        let weight = |size: (usize, usize), name: &str| {
            let weight = vb.get(size, &format!("weight_{name}_{suffix}"))?;
            weight.to_dtype(working_dtype(vb.dtype()))
        };
        let bias = |name: &str| {
            let bias = vb.get(rows, &format!("bias_{name}_{suffix}"))?;
            bias.to_dtype(working_dtype(vb.dtype()))
        };
        let (state_size, projection) = match cfg.proj_size {
            0 => (hidden_size, None),
            size => (size, Some(weight((size, hidden_size), "hr")?)),
        };
        Ok(Self {
            input: weight((rows, input_size), "ih")?,
            // Column-major, because a product with few rows reads it row by row at every step.
            hidden: weight((rows, state_size), "hh")?.t()?.contiguous()?.t()?,
            input_bias: cfg.bias.then(|| bias("ih")).transpose()?,
            hidden_bias: cfg.bias.then(|| bias("hh")).transpose()?,
            projection,
        })
    }

    /// From tensors in torch's order.
    pub(super) fn of(params: Vec<Tensor>, cfg: &RnnConfig) -> Result<Self> {
        let mut params = params.into_iter();
        let mut next = || match params.next() {
            Some(tensor) => Ok(tensor),
            None => candle::bail!("a recurrent layer has too few weights"),
        };
        Ok(Self {
            input: next()?,
            hidden: next()?.t()?.contiguous()?.t()?,
            input_bias: cfg.bias.then(&mut next).transpose()?,
            hidden_bias: cfg.bias.then(&mut next).transpose()?,
            projection: (cfg.proj_size > 0).then(&mut next).transpose()?,
        })
    }

    /// The input's share in the gates, for all steps at once.
    pub(super) fn project_input(&self, xs: &Tensor) -> Result<Tensor> {
        ops::linear(xs, &self.input, self.input_bias.as_ref())
    }

    /// The hidden state's share in the gates.
    pub(super) fn project_hidden(&self, hidden: &Tensor) -> Result<Tensor> {
        ops::linear(hidden, &self.hidden, self.hidden_bias.as_ref())
    }

    /// The hidden state that a step hands on.
    pub(super) fn project_output(&self, hidden: Tensor) -> Result<Tensor> {
        match &self.projection {
            None => Ok(hidden),
            Some(projection) => ops::linear(&hidden, projection, None),
        }
    }
}

/// Half types would lose a bit of the state at every step, and widen the weights at every step.
pub(super) fn working_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        dtype => dtype,
    }
}
