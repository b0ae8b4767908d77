//! Torch's activation modules: one type, which holds the function and its numbers.

use crate::check::Probe;
use crate::ops;
use candle::{Module, Result, Tensor};
use candle_nn::VarBuilder;

#[derive(Debug, Clone, Copy)]
enum Function {
    Plain(fn(&Tensor) -> Result<Tensor>),
    Elu { alpha: f64 },
    LeakyRelu { slope: f64 },
    Relu6,
    Softplus { beta: f64, threshold: f64 },
    Softmax { dim: usize },
    Identity,
}

#[derive(Debug, Clone)]
pub struct Activation {
    probe: Probe,
    function: Function,
}

impl Activation {
    fn new(function: Function, vb: VarBuilder) -> Self {
        let probe = Probe::new(&vb);
        Self { probe, function }
    }
}

impl Module for Activation {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        let xs = self.probe.input(0, xs)?;
        let ys = match self.function {
            Function::Plain(function) => function(&xs),
            Function::Elu { alpha } => ops::elu(&xs, alpha, 1.0, 1.0),
            Function::LeakyRelu { slope } => ops::leaky_relu(&xs, slope),
            Function::Relu6 => ops::clamp(&xs, Some(0.0), Some(6.0)),
            Function::Softplus { beta, threshold } => ops::softplus(&xs, beta, threshold),
            Function::Softmax { dim } => ops::softmax(&xs, dim),
            Function::Identity => Ok(xs),
        }?;
        self.probe.output(ys)
    }
}

macro_rules! plain {
    ($($name:ident),+ $(,)?) => {$(
        pub fn $name(vb: VarBuilder) -> Activation {
            Activation::new(Function::Plain(ops::$name), vb)
        }
    )+};
}

plain!(
    relu,
    gelu,
    gelu_tanh,
    sigmoid,
    tanh,
    silu,
    mish,
    hardswish,
    hardsigmoid,
);

pub fn elu(alpha: f64, vb: VarBuilder) -> Activation {
    Activation::new(Function::Elu { alpha }, vb)
}

pub fn leaky_relu(slope: f64, vb: VarBuilder) -> Activation {
    Activation::new(Function::LeakyRelu { slope }, vb)
}

pub fn relu6(vb: VarBuilder) -> Activation {
    Activation::new(Function::Relu6, vb)
}

pub fn softplus(beta: f64, threshold: f64, vb: VarBuilder) -> Activation {
    Activation::new(Function::Softplus { beta, threshold }, vb)
}

pub fn softmax(dim: usize, vb: VarBuilder) -> Activation {
    Activation::new(Function::Softmax { dim }, vb)
}

/// Also what dropout is at inference.
pub fn identity(vb: VarBuilder) -> Activation {
    Activation::new(Function::Identity, vb)
}
