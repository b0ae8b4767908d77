//! The equations of recurrent cells in torch's documentation, one scalar at a time in float64.

use super::noise;
use candle::{DType, Tensor};

pub const INPUT: usize = 3;
pub const HIDDEN: usize = 4;

pub type Matrix = Vec<Vec<f64>>;

pub fn matrix(tensor: &Tensor) -> Matrix {
    let values = tensor.to_dtype(DType::F64).unwrap();
    values.to_vec2().unwrap()
}

/// `weight · x + bias`.
pub fn affine(weight: &Matrix, bias: &[f64], x: &[f64]) -> Vec<f64> {
    let dot = |row: &Vec<f64>| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
    weight
        .iter()
        .zip(bias)
        .map(|(row, bias)| dot(row) + bias)
        .collect()
}

pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// One layer's weights in one direction, under torch's names.
pub struct Weights {
    pub tensors: Vec<(String, Tensor)>,
    input: Matrix,
    hidden: Matrix,
    input_bias: Vec<f64>,
    hidden_bias: Vec<f64>,
}

impl Weights {
    pub fn new(
        gates: usize,
        input: usize,
        state: usize,
        suffix: &str,
        bias: bool,
        seed: u32,
    ) -> Self {
        let rows = gates * HIDDEN;
        let mut tensors = vec![
            (format!("weight_ih_{suffix}"), noise(seed, &[rows, input])),
            (
                format!("weight_hh_{suffix}"),
                noise(seed + 1, &[rows, state]),
            ),
        ];
        let [mut input_bias, mut hidden_bias] = [vec![0.0; rows], vec![0.0; rows]];
        if bias {
            tensors.push((format!("bias_ih_{suffix}"), noise(seed + 2, &[rows])));
            tensors.push((format!("bias_hh_{suffix}"), noise(seed + 3, &[rows])));
            input_bias = matrix(&tensors[2].1.unsqueeze(0).unwrap()).remove(0);
            hidden_bias = matrix(&tensors[3].1.unsqueeze(0).unwrap()).remove(0);
        }
        let (input, hidden) = (matrix(&tensors[0].1), matrix(&tensors[1].1));
        Self {
            tensors,
            input,
            hidden,
            input_bias,
            hidden_bias,
        }
    }

    /// The shares of input and hidden state in the gates.
    pub fn shares(&self, x: &[f64], hidden: &[f64]) -> (Vec<f64>, Vec<f64>) {
        (
            affine(&self.input, &self.input_bias, x),
            affine(&self.hidden, &self.hidden_bias, hidden),
        )
    }
}

pub fn lstm_step(
    weights: &Weights,
    x: &[f64],
    hidden: &[f64],
    cell: &[f64],
) -> (Vec<f64>, Vec<f64>) {
    let (from_x, from_h) = weights.shares(x, hidden);
    let gate = |gate: usize, i: usize| from_x[gate * HIDDEN + i] + from_h[gate * HIDDEN + i];
    let cell: Vec<f64> = (0..HIDDEN)
        .map(|i| sigmoid(gate(1, i)) * cell[i] + sigmoid(gate(0, i)) * gate(2, i).tanh())
        .collect();
    let hidden = (0..HIDDEN)
        .map(|i| sigmoid(gate(3, i)) * cell[i].tanh())
        .collect();
    (hidden, cell)
}

pub fn gru_step(weights: &Weights, x: &[f64], hidden: &[f64]) -> Vec<f64> {
    let (from_x, from_h) = weights.shares(x, hidden);
    let both = |gate: usize, i: usize| from_x[gate * HIDDEN + i] + from_h[gate * HIDDEN + i];
    (0..HIDDEN)
        .map(|i| {
            let reset = sigmoid(both(0, i));
            let update = sigmoid(both(1, i));
            let new = (from_x[2 * HIDDEN + i] + reset * from_h[2 * HIDDEN + i]).tanh();
            (1.0 - update) * new + update * hidden[i]
        })
        .collect()
}
