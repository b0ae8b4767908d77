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
        self.kernels: dict[Any, Operation] = {}
        if wrong is not None:
            self.kernels[operation] = wrong

    def compile(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Operation:
        kernels = self.kernels

        class Kernels(torch.fx.Interpreter):
            def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
                if target in kernels:
                    return kernels[target](*args, **kwargs)
                return super().call_function(target, args, kwargs)

        # One that has run holds what it gave.
        return lambda *given: Kernels(module).run(*given)

    def __call__(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        def compile(graph: torch.fx.GraphModule, given: Sequence[Any]) -> Any:
            return make_boxed_func(self.compile(graph, given))

        return aot_autograd(fw_compiler=compile, bw_compiler=compile)(module, inputs)


class Rounding(Planted):
    """Kernels of its own for products, forward and backward: they are honest, and add up in another order."""

    def __init__(self, operation: Operation | None = None, wrong: Operation | None = None) -> None:
        super().__init__(operation, wrong)
        self.kernels = {
            torch.ops.aten.addmm.default: lambda bias, a, b: bias + (a.flip(1) @ b.flip(0)),
            torch.ops.aten.mm.default: lambda a, b: a.flip(1) @ b.flip(0),
            **self.kernels,
        }
