"""What comparing kernels needs of torch.compile: graphs of ATen operations with real inputs, and Inductor's inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from torchport.debug.internals.needs import Need

_USE = "comparing kernels"
NEEDS = (
    Need("AOTAutograd", "torch._dynamo.backends.common", "aot_autograd", f"backends, {_USE}"),
    Need("boxed functions", "functorch.compile", "make_boxed_func", f"backends, {_USE}"),
    Need("backends by name", "torch._dynamo.backends.registry", "lookup_backend", _USE),
    Need("settings of Dynamo", "torch._dynamo.config", "patch", _USE),
    Need("Inductor on an ATen graph", "torch._inductor.compile_fx", "compile_fx_inner", _USE),
    Need("Inductor's decompositions", "torch._inductor.decomposition", "select_decomp_table", _USE),
    Need("settings of Inductor", "torch._inductor.config", "patch", _USE),
    Need("settings of AOTAutograd", "torch._functorch.config", "enable_autograd_cache", _USE),
    Need("recurrent layers", "torch._dynamo.config", "allow_rnn", "saying why there is no graph of nn.LSTM"),
    Need("count of kernels", "torch._inductor.metrics", "generated_kernel_count", "counts of kernels"),
)
Compiled = Callable[..., Any]
Compile = Callable[[torch.fx.GraphModule, Sequence[Any]], Compiled]
RECOMPILATIONS = 64
"""How many graphs Dynamo may make of one function before it leaves that to eager PyTorch."""


def aten_backend(forward: Compile, backward: Compile, decompositions: Mapping[Any, Any] | None = None) -> Any:
    """A backend of torch.compile: graphs go through AOTAutograd, and are compiled by `forward` and `backward`."""
    from functorch.compile import make_boxed_func  # type: ignore[import-untyped]
    from torch._dynamo.backends.common import aot_autograd

    def boxed(compile: Compile) -> Compile:
        return lambda graph, given: make_boxed_func(compile(graph, given))

    return aot_autograd(
        fw_compiler=boxed(forward),
        bw_compiler=boxed(backward),
        inference_compiler=boxed(forward),
        decompositions=dict(decompositions or {}),
    )


def backend_of_name(name: str) -> Compile:
    from torch._dynamo.backends.registry import lookup_backend

    found: Any = lookup_backend(name)
    compile: Compile = found
    return compile


def is_eager(backend: Any) -> bool:
    """Whether a backend is one of torch's own by which eager PyTorch computes."""
    return any(backend is backend_of_name(name) for name in _EAGER)


_EAGER = ("eager", "aot_eager", "aot_eager_decomp_partition")


def names_of_backends() -> list[str]:
    names: list[str] = torch._dynamo.list_backends(exclude_tags=())  # type: ignore[no-untyped-call]
    return names


@contextmanager
def compiling(*, is_observed: bool) -> Iterator[None]:
    """Within, Dynamo makes as many graphs as it needs, and Inductor draws eager's random numbers and reads no caches.

    If every value is to be seen, Inductor also rounds each to its dtype before it goes on with it.
    """
    import torch._dynamo.config as dynamo
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor

    settings = {"fallback_random": True, "fx_graph_cache": False, "fx_graph_remote_cache": False}
    if is_observed and hasattr(inductor, "emulate_precision_casts"):
        settings["emulate_precision_casts"] = True
    limits = [name for name in ("recompile_limit", "cache_size_limit") if hasattr(dynamo, name)]
    with (
        inductor.patch(settings),  # type: ignore[no-untyped-call]
        functorch.patch({"enable_autograd_cache": False}),  # type: ignore[no-untyped-call]
        dynamo.patch(dict.fromkeys(limits[:1], RECOMPILATIONS)),  # type: ignore[no-untyped-call]
    ):
        yield


def inductor_decompositions() -> Mapping[Any, Any]:
    """How Inductor takes operations apart; under `compiling`, random ones stay whole."""
    from torch._inductor import lowering  # noqa: F401 – some decompositions use it without importing it
    from torch._inductor.decomposition import select_decomp_table

    found: Mapping[Any, Any] = select_decomp_table()
    return found


def compile_by_inductor(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], *, is_backward: bool
) -> tuple[Compiled, int]:
    """What Inductor makes of a graph of ATen operations, and of how many kernels that is."""
    from torch._inductor import metrics
    from torch._inductor.compile_fx import compile_fx_inner

    before = metrics.generated_kernel_count
    compiled: Any = compile_fx_inner(graph, list(inputs), is_backward=is_backward)
    return lambda *given: compiled(list(given)), metrics.generated_kernel_count - before


def leaves_recurrent_layers_to_eager() -> bool:
    """Whether Dynamo makes no graph of `nn.LSTM` and its like, as it does by default."""
    import torch._dynamo.config as dynamo

    return not getattr(dynamo, "allow_rnn", True)


def is_inductor(backend: Any) -> bool:
    """Whether a backend is Inductor itself."""
    if isinstance(backend, str):
        return backend in ("inductor", "torchport_inductor")
    module = getattr(backend, "__module__", None) or ""
    return module.startswith("torch._inductor") or module == "torch._dynamo.backends.inductor"
