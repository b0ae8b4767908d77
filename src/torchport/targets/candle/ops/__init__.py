"""The operations: what each ATen operation is in Rust. Importing this package fills the table.

There are three tiers: rows of text, rows whose tensors are first cast to the dtype of the result, and functions.
"""

from torchport.targets.candle.ops import (
    arithmetic,
    complex,
    convolution,
    counting,
    create,
    elementwise,
    experts,
    index,
    linalg,
    norms,
    placing,
    pool,
    products,
    random,
    recurrent,
    reduce,
    shape,
    sound,
    special,
    stages,
)

__all__ = [
    "arithmetic",
    "complex",
    "convolution",
    "counting",
    "create",
    "elementwise",
    "experts",
    "index",
    "linalg",
    "norms",
    "placing",
    "pool",
    "products",
    "random",
    "recurrent",
    "reduce",
    "shape",
    "sound",
    "special",
    "stages",
]
