"""Backends for tests: each runs a graph operation by operation, one of which may be computed wrongly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func  # type: ignore[import-untyped]
from torch._dynamo.backends.common import aot_autograd

from torchport.debug.adapters.capabilities import AcceleratorCapabilities

Operation = Callable[..., Any]


class Planted:
    """A backend with one wrong kernel: whatever `operation` is, `wrong` is computed in its place."""

    capabilities = AcceleratorCapabilities("planted")
    name = "planted"

    def __init__(self, operation: Operation | None = None, wrong: Operation | None = None) -> None:
        self.operation, self.wrong = operation, wrong

    def compile(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Operation:
        operation, wrong = self.operation, self.wrong

        class Kernels(torch.fx.Interpreter):
            def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
                if target is operation and wrong is not None:
                    return wrong(*args, **kwargs)
                return super().call_function(target, args, kwargs)

        # One that has run holds what it gave.
        return lambda *given: Kernels(module).run(*given)

    def __call__(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        def compile(graph: torch.fx.GraphModule, given: Sequence[Any]) -> Any:
            return make_boxed_func(self.compile(graph, given))

        return aot_autograd(fw_compiler=compile, bw_compiler=compile)(module, inputs)
