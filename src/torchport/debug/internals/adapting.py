"""What adapters need of torch.compile: AOTAutograd in front of them, names among the backends, Dynamo's counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torchport.debug.internals.needs import Need

NEEDS = (
    Need("AOTAutograd", "torch._dynamo.backends.common", "aot_autograd", "adapters of accelerators"),
    Need("boxed functions", "torch._functorch.aot_autograd", "make_boxed_func", "adapters of accelerators"),
    Need("backend registry", "torch._dynamo.backends.registry", "_COMPILER_FNS", "adapters by name"),
    Need("counters", "torch._dynamo.utils", "counters", "counts of graphs and breaks in benchmarks"),
)
Compiled = Callable[..., Any]
Compile = Callable[[torch.fx.GraphModule, Sequence[Any]], Compiled]


def through_autograd(
    module: torch.fx.GraphModule, inputs: Sequence[Any], *, forward: Compile, backward: Compile
) -> Compiled:
    """A graph of Dynamo's, compiled as graphs of ATen operations; `backward` is asked if gradients are wanted."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func  # type: ignore[attr-defined]

    def boxed(compile: Compile) -> Compile:
        return lambda graph, given: make_boxed_func(compile(graph, given))

    compiler = aot_autograd(fw_compiler=boxed(forward), bw_compiler=boxed(backward))
    compiled: Compiled = compiler(module, inputs)
    return compiled


def register(name: str, backend: Callable[..., Any]) -> bool:
    """Makes a backend known to torch.compile by name; False if another one has the name."""
    from torch._dynamo.backends import registry

    known: dict[str, Any] = registry._COMPILER_FNS
    if name in known:
        return known[name] is backend
    registry.register_backend(backend, name=name)
    return True


def graphs_and_breaks() -> tuple[int, int]:
    """How many graphs Dynamo has made since it was reset, and how often it had to end one early."""
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"]), sum(counters["graph_break"].values())


def forget_counts() -> None:
    from torch._dynamo.utils import counters

    counters.clear()
