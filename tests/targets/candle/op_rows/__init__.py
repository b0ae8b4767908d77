"""Rows of operations: what is computed, on which inputs. `test_ops` proves each as a layer of one model."""

from . import (
    arithmetic,
    convolution,
    counting,
    experts,
    found,
    fourier,
    index,
    layers,
    linalg,
    norms,
    placing,
    products,
    recurrent,
    reduce,
    shape,
    sizes,
    special,
    stages,
    unary,
)
from .table import Everything, Row, Table

_MODULES = (
    *(arithmetic, unary, reduce, shape, index, products, convolution, norms, layers, recurrent, sizes),
    *(special, counting, experts, placing, stages, fourier, linalg, found),
)
TABLES: tuple[Table, ...] = tuple(module.table for module in _MODULES)

__all__ = ["TABLES", "Everything", "Row", "Table"]
