"""The operations: what each ATen operation is in Rust. Importing this package fills the table.

Three tiers: rows of text, rows whose tensors are cast to the result's dtype, and functions for the rest.
"""

from torchport.targets.candle.ops import arithmetic, create, elementwise, index, layers, pool, reduce, shape

__all__ = ["arithmetic", "create", "elementwise", "index", "layers", "pool", "reduce", "shape"]
