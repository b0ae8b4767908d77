"""Every torch.compile of a run, whoever calls it and how: who compiles its graphs, and what its calls run in."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import FunctionType
from typing import Any

import torch

from torchport.debug.internals.dynamo_state import backend_name, innermost_backend
from torchport.debug.internals.needs import Need

_USE = "debugging runs of whole scripts"
NEEDS = (
    Need(
        "graphs on their way to a backend",
        "torch._dynamo.output_graph",
        "OutputGraph.call_user_compiler",
        _USE,
    ),
    Need("functions that are compiled", "torch._dynamo.eval_frame", "_TorchDynamoContext.__call__", _USE),
    Need("Inductor with its settings", "torch", "_TorchCompileInductorWrapper", _USE),
)
Own = Callable[..., Any]
"""The backend that torch.compile was given."""
Compile = Callable[[Own, torch.fx.GraphModule, Sequence[Any]], Any]


@contextmanager
def graphs_handed_to(compile: Compile) -> Iterator[None]:
    """Within, `compile` is called for each graph in the place of its backend, which it is given, too."""
    from torch._dynamo.output_graph import OutputGraph

    original: Any = OutputGraph.call_user_compiler

    @functools.wraps(original)
    def call(output: Any, module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        own = output.compiler_fn

        def hand_over(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
            return compile(own, module, inputs)

        hand_over.__name__ = backend_name(own)  # Dynamo names it in its errors.
        output.compiler_fn = hand_over
        try:
            return original(output, module, *args, **kwargs)
        finally:
            output.compiler_fn = own

    with _replaced(OutputGraph, "call_user_compiler", call):
        yield


@contextmanager
def calls_made_in(surroundings: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Within, what torch.compile is given is called in these surroundings each time, from then on."""
    from torch._dynamo.eval_frame import OptimizeContext, _TorchDynamoContext

    original: Any = _TorchDynamoContext.__call__

    @functools.wraps(original)
    def compiled(context: Any, function: Any) -> Any:
        made = original(context, function)
        if not isinstance(context, OptimizeContext) or not isinstance(made, FunctionType):
            return made

        @functools.wraps(made)
        def call(*args: Any, **kwargs: Any) -> Any:
            with surroundings():
                return made(*args, **kwargs)

        return call

    with _replaced(_TorchDynamoContext, "__call__", compiled):
        yield


@contextmanager
def _replaced(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, original)


def settings_of_inductor(backend: Any) -> dict[str, Any] | None:
    """The settings that torch.compile has Inductor compile with; None if a backend is not Inductor."""
    backend, wrapper = innermost_backend(backend), getattr(torch, "_TorchCompileInductorWrapper", None)
    if type(backend) is wrapper:
        return dict(backend.config)
    module = getattr(backend, "__module__", None)
    return {} if module == "torch._dynamo.backends.inductor" else None
