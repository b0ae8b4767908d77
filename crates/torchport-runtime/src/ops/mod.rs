//! Free functions with torch's semantics, on candle tensors. Inputs may be views out of order.

#[cfg(test)]
mod accuracy;
mod advanced_index;
mod arrange;
mod attention;
mod attention_blocks;
mod binary;
#[cfg(test)]
mod candle_traps;
mod cast;
mod conv;
mod conv_transpose;
mod create;
mod diagonal;
mod direct;
mod extreme;
mod functions;
mod gemm;
#[cfg(test)]
mod gemm_tests;
mod gemv;
mod index;
mod kernel;
mod logic;
mod math;
mod matmul;
mod matrix;
mod microkernel;
mod norm;
#[cfg(test)]
mod norm_tests;
mod pad;
mod pairs;
mod pool;
mod positions;
mod real;
mod reduce;
mod scalar;
mod scan;
mod scatter;
mod softmax;
mod sort;
mod statistics;
mod strided;
mod unary;
mod unfold;
mod upsample;
mod windows;

pub use advanced_index::{index, nonzero};
pub use arrange::*;
pub use attention::*;
pub use binary::*;
pub use cast::{to_bool, to_dtype};
pub use conv::conv;
pub use conv_transpose::*;
pub use create::{arange, full};
pub use diagonal::diagonal;
pub use extreme::*;
pub use functions::*;
pub use index::{embedding, gather, index_select, select, slice};
pub use logic::*;
pub use matmul::{linear, matmul};
pub use norm::{batch_norm, group_norm, layer_norm, rms_norm};
pub use pad::{pad, PadMode};
pub use pairs::*;
pub use pool::*;
pub use scalar::*;
pub use scan::*;
pub use scatter::*;
pub use softmax::*;
pub use sort::*;
pub use statistics::{all, amax, amin, any, mean, norm, prod, sum, var};
pub use strided::contiguous;
pub use unary::*;
pub use upsample::*;
