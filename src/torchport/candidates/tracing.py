"""Code that runs in PyTorch as a graph of ATen operations: the one place that knows how torch traces.

In: a function of tensors and the tensors that it is traced on. Out: an fx graph without mutations, whose nodes know the
user's line that they come from. What the graph cannot express, such as a branch on a value, is refused.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.functional_tensor import FunctionalTensorMode, dispatch_functionalize
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from torchport.candidates.probing import user_frame
from torchport.capture.state import quiet
from torchport.errors import CaptureError

Traced = Callable[..., list[Tensor]]


def trace(function: Traced, tensors: Sequence[Tensor], *, backward: bool) -> torch.fx.GraphModule:
    """The operations of a function; with `backward`, it may call autograd, whose operations are in the graph, too.

    Without `backward`, operations that torch would compute by others, such as `aten.linear`, stay whole.
    """

    def with_lines(*given: Tensor) -> list[Tensor]:
        with _LinesOfOperations() if backward else _LinesOfCalls():  # type: ignore[no-untyped-call]
            return function(*given)

    mode = FunctionalTensorMode(pre_dispatch=not backward, export=not backward)
    try:
        with quiet(), torch.set_grad_enabled(backward):
            traced = make_fx(dispatch_functionalize(with_lines, mode), pre_dispatch=not backward)(*tensors)
    except MemoryError:
        raise
    except Exception as error:  # Tracing raises whatever the user's code raises for tensors without a value.
        raise CaptureError("TP0202", f"it cannot be traced: {type(error).__name__}: {error}") from error
    _without_grad_modes(traced.graph)
    return traced


def lift_constants(traced: torch.fx.GraphModule) -> list[Tensor]:
    """Makes inputs of the tensors that the graph holds itself, after its other inputs, and gives these tensors."""
    graph = traced.graph
    held = [node for node in graph.nodes if node.op == "get_attr"]
    tensors = [getattr(traced, str(node.target)) for node in held]
    with graph.inserting_before(next(node for node in graph.nodes if node.op != "placeholder")):
        inputs = [graph.placeholder(f"constant_{index}") for index in range(len(held))]
    for node, tensor, lifted in zip(held, tensors, inputs, strict=True):
        lifted.meta.update(node.meta, val=tensor)
        node.replace_all_uses_with(lifted)
        graph.erase_node(node)
    return tensors


def _without_grad_modes(graph: torch.fx.Graph) -> None:
    """Takes out the nodes that only turn the recording of gradients on and off: values do not depend on them."""
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is torch._C._set_grad_enabled:
            graph.erase_node(node)


def _noting_lines(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Calls a function, and notes at the nodes that it adds to the trace the user's line that called it."""
    proxies = get_proxy_mode()
    if proxies is None:
        return function(*args, **kwargs)
    nodes = proxies.tracer.graph.nodes
    before = next(iter(reversed(nodes)), None)
    result = function(*args, **kwargs)
    frame = user_frame(sys._getframe(2))
    if frame is not None:
        # As torch writes a stack trace, so that the graph is read as any other.
        line = f'File "{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}'
        for node in itertools.takewhile(lambda node: node is not before, reversed(nodes)):
            node.meta.setdefault("stack_trace", line)
    return result


class _LinesOfCalls(TorchFunctionMode):
    """Notes the lines of operations that stay whole."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _noting_lines(func, args, kwargs or {})


class _LinesOfOperations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the lines of operations, also of those in a backward that is written in Python."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _noting_lines(func, args, kwargs or {})
