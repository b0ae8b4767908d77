"""Ports to candle, made to know more: Rust for the operations of your own package.

@torchport.candle.lowers("mylib::op")
def op() -> str:
    return "fn op(x: &Tensor) -> Result<Tensor> { … }"
"""

from torchport.targets.candle.lowering import lowers

__all__ = ["lowers"]
