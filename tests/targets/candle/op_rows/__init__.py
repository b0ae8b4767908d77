"""The table of operation rows: what is computed, on which inputs. `test_ops` proves each as a layer of one model."""

from . import arithmetic, layers, neural, reduce, shape, unary
from .table import Everything, Row, Table

TABLES: tuple[Table, ...] = tuple(
    module.table for module in (arithmetic, unary, reduce, shape, neural, layers)
)

__all__ = ["TABLES", "Everything", "Row", "Table"]
