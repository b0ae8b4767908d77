"""A reference adapter that only checks: graphs are held against what the accelerator can run, and then run eagerly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torchport.debug.adapters.base import AcceleratorAdapter
from torchport.debug.adapters.capabilities import AcceleratorCapabilities

DEFAULT = AcceleratorCapabilities(
    "mock_accelerator",
    dtypes=frozenset({"float32", "bfloat16", "int64", "int32", "bool"}),
    memory_bytes=16 * 2**30,
)


class MockAcceleratorAdapter(AcceleratorAdapter):
    """No kernel runs: its numbers are eager PyTorch's own, and prove nothing about an accelerator."""

    runs_kernels = False

    def __init__(self, capabilities: AcceleratorCapabilities | None = None, *, strict: bool = False) -> None:
        self.capabilities = DEFAULT if capabilities is None else capabilities
        self.strict = strict

    def compile(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return gm
