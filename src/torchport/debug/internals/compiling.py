"""Whether Dynamo or AOTAutograd is at work, so that what they run to learn about a model is not taken for the model."""

from __future__ import annotations

import torch

from torchport.debug.internals.needs import Need

NEEDS = (
    Need("compilations", "torch._guards", "TracingContext.try_get", "seeing what runs outside of graphs"),
    Need("fake tensors", "torch._subclasses", "FakeTensor", "seeing what runs outside of graphs"),
)


def is_compiling() -> bool:
    from torch._guards import TracingContext

    return TracingContext.try_get() is not None


def is_fake(tensor: torch.Tensor) -> bool:
    from torch._subclasses import FakeTensor

    return isinstance(tensor, FakeTensor) or tensor.is_meta
