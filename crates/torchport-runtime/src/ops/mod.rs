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
mod complex;
mod conv;
mod conv_transpose;
mod create;
mod diagonal;
mod direct;
mod embedding_bag;
mod extreme;
mod fft;
mod functions;
mod gemm;
#[cfg(test)]
mod gemm_tests;
mod gemv;
mod grid_sample;
mod index;
mod kernel;
mod linalg;
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
mod pool_indices;
mod positions;
mod real;
mod reduce;
mod scalar;
mod scan;
mod scatter;
mod scatter_reduce;
mod search;
mod select;
mod softmax;
mod sort;
mod spectral;
mod statistics;
mod strided;
#[cfg(test)]
mod test_tensors;
mod training;
mod unary;
mod unfold;
mod upsample;
mod windows;

mod antialias;
mod counting;
mod grouped;
mod placing;
mod ranks;
mod running;
mod special;
pub use advanced_index::{index, nonzero};
pub use antialias::{upsample_antialiased, Weighing};
pub use arrange::*;
pub use attention::*;
pub use binary::*;
pub use cast::{to_bool, to_dtype};
pub use complex::*;
pub use conv::conv;
pub use conv_transpose::*;
pub use counting::*;
pub use create::{arange, full};
pub use diagonal::diagonal;
pub use embedding_bag::{embedding_bag, embedding_renorm, Bag};
pub use extreme::*;
pub use fft::*;
pub use functions::*;
pub use grid_sample::{grid_sample, Border, Sampling};
pub use grouped::grouped_mm;
pub use index::{embedding, gather, index_select, select, slice};
pub use linalg::{
    cholesky, cholesky_solve, det, inverse, lu_factor, lu_unpack, matrix_exp, qr, slogdet, solve,
    solve_triangular,
};
pub use logic::*;
pub use matmul::{addmm, linear, matmul};
pub use norm::{batch_norm, group_norm, layer_norm, rms_norm};
pub use pad::{pad, PadMode};
pub use pairs::*;
pub use placing::*;
pub use pool::*;
pub use pool_indices::*;
pub use ranks::*;
pub use running::{cummax, cummin, logcumsumexp};
pub use scalar::*;
pub use scan::*;
pub use scatter::*;
pub use scatter_reduce::{scatter_reduce, Gathering};
pub use search::searchsorted;
pub use softmax::*;
pub use sort::*;
pub use special::*;
pub use spectral::*;
pub use statistics::{all, amax, amin, any, mean, norm, prod, std, std_mean, sum, var, var_mean};
pub use strided::contiguous;
pub use training::batch_norm_in_training;
pub use unary::*;
pub use upsample::*;
