"""Rules that graphs are held against, and those that come with torchport."""

from torchport.debug.constraints.base import CheckedGraph, Constraint, Found, Stage, Violation, check_graph
from torchport.debug.constraints.dtype import DtypeConstraint
from torchport.debug.constraints.layout import LayoutConstraint
from torchport.debug.constraints.memory import MemoryConstraint
from torchport.debug.constraints.shape import ShapeConstraint
from torchport.debug.constraints.unsupported import UnsupportedOpsConstraint

__all__ = [
    "CheckedGraph",
    "Constraint",
    "DtypeConstraint",
    "Found",
    "LayoutConstraint",
    "MemoryConstraint",
    "ShapeConstraint",
    "Stage",
    "UnsupportedOpsConstraint",
    "Violation",
    "check_graph",
]
