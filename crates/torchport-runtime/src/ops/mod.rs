
mod attention;
pub use attention::*;
mod conv;
pub use conv::*;
mod conv_transpose;
pub use conv_transpose::*;
mod depthwise;
mod gemm;
mod matmul;
pub use matmul::*;
mod norm;
pub use norm::*;
mod pad;
pub use pad::*;
mod pool;
pub use pool::*;
mod simd;
mod storage;
