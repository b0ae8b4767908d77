"""What a capture of a graph gives, before there are golden values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from torchport.capture.graph import Graph


@dataclass(frozen=True)
class Exported:
    """A graph and the tensors that it reads."""

    graph: Graph
    weights: Mapping[str, torch.Tensor]
    writes: tuple[str, ...] = ()
    """Buffers that the model writes to, and inputs that an fx graph does; the graph leaves them as they are."""
    left_out: tuple[str, ...] = ()
    """Outputs that are no tensors, such as None or a size, by the names that they would have."""
    fixed_by: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """What fixed an axis that was left free, by the number of the input and the axis."""
