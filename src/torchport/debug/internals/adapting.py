"""What adapters and benchmarks need of torch.compile: names among its backends, and Dynamo's counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchport.debug.internals.needs import Need

NEEDS = (
    Need("backend registry", "torch._dynamo.backends.registry", "_COMPILER_FNS", "adapters by name"),
    Need("counters", "torch._dynamo.utils", "counters", "counts of graphs and breaks in benchmarks"),
)


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
