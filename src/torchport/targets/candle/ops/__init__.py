"""The operations: what each ATen operation is in Rust. Importing this package fills the table.

There are three tiers: rows of text, rows whose tensors are first cast to the dtype of the result, and functions.
"""

from torchport.targets.candle.ops import (
    arithmetic,
    convolution,
    create,
    elementwise,
    index,
    norms,
    pool,
    products,
    reduce,
    shape,
)

__all__ = [
    "arithmetic",
    "convolution",
    "create",
    "elementwise",
    "index",
    "norms",
    "pool",
    "products",
    "reduce",
    "shape",
]
