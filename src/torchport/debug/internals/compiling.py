"""Whether Dynamo or AOTAutograd is at work, so that what they run to learn about a model is not taken for the model."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from torchport.debug.internals.needs import Need

NEEDS = (
    Need("compilations", "torch._guards", "TracingContext.try_get", "seeing what runs outside of graphs"),
    Need("fake tensors", "torch._subclasses", "FakeTensor", "telling values from none"),
    Need(
        "modes", "torch.utils._python_dispatch", "_disable_current_modes", "scripts written while compiling"
    ),
)


def real_tensors() -> AbstractContextManager[Any]:
    """Within, operations compute values, although torch.compile may be at work, which only asks for shapes."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def is_compiling() -> bool:
    from torch._guards import TracingContext

    return TracingContext.try_get() is not None


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether a tensor has no values."""
    from torch._subclasses import FakeTensor

    return isinstance(tensor, FakeTensor) or tensor.is_meta
