"""The least length of each free size: 2 if the model does something else with an axis of length 1.

torch.export takes every free size to be at least 2: it follows `if x.shape[1] > 1` into one branch and says nothing,
and leaves axes alone that `squeeze` takes out when they have length 1. So the model and its graph are both run on the
inputs cut to length 1, an axis at a time. In: a model with its graph and inputs. Out: the graph, whose symbols say from
which length on it stands for the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture import operations
from torchport.capture.drawn import SEED
from torchport.capture.eager import on_meta, run_eager, tensors
from torchport.capture.exported import Exported
from torchport.capture.interpret import Interpreter
from torchport.capture.plan import Plan
from torchport.capture.state import copied
from torchport.capture.torch_internals import pytree
from torchport.capture.values import must_agree
from torchport.errors import CaptureError

SQUEEZES = ("aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims")


def with_least(
    model: torch.nn.Module, exported: Exported, plan: Plan, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> g.Graph:
    """The graph with the least length of each of its free sizes. A model on the meta device cannot be run."""
    squeezed = dict(_squeezed(exported.graph))
    is_meta = on_meta(model, (args, kwargs))

    def least(symbol: g.Symbol) -> int:
        if symbol.name in squeezed or symbol.low > 2:
            return max(symbol.low, 2)
        cut = None if is_meta else _cut(exported.graph, symbol.name, (args, dict(kwargs)))
        return 1 if cut is None or _agrees(model, exported, plan, cut) else 2

    symbols = tuple(replace(symbol, low=least(symbol)) for symbol in exported.graph.symbols)
    return replace(exported.graph, symbols=symbols)


def must_not_squeeze(graph: g.Graph, given: Any) -> None:
    """CaptureError if a free size is 1 in the inputs, and the model takes that axis out."""
    lengths, squeezed = graph.bindings(_shapes(graph, given)), dict(_squeezed(graph))
    for symbol in graph.symbols:
        if lengths[symbol.name] == 1 and symbol.name in squeezed:
            raise CaptureError(
                "TP0202",
                f"axis {symbol.axis} of {symbol.input} has length 1, and squeeze takes it out",
                where=squeezed[symbol.name],
                fix="give an example input that is longer, or leave that axis fixed",
            )


def _squeezed(graph: g.Graph) -> Iterator[tuple[str, str | None]]:
    """The free sizes of axes that are taken out if they have length 1, each with the user's line."""
    for module in graph.modules.values():
        metas = g.value_metas(module, graph.weights)
        for node in module.nodes:
            if node.op not in SQUEEZES:
                continue
            given = operations.given(node.op, node.args, node.kwargs)
            shape = metas[given["self"]].shape
            dims = given.get("dim", range(len(shape)))
            for dim in [dims] if isinstance(dims, int) else dims:
                size = shape[dim] if shape else 1
                if isinstance(size, g.Sym) and isinstance(size.expr, str):
                    yield size.expr, node.source


def _shapes(graph: g.Graph, given: Any) -> dict[str, tuple[int, ...]]:
    return {item.name: tuple(one.shape) for item, one in zip(graph.root.inputs, tensors(given), strict=True)}


def _cut(graph: g.Graph, symbol: str, given: Any) -> Any:
    """The inputs with this size cut to 1; None if it is 1 already, or if that leaves an input no length."""
    inputs = iter(graph.root.inputs)
    lengths = graph.bindings(_shapes(graph, given))
    if lengths[symbol] <= 1:
        return None
    lengths[symbol] = 1
    too_short = False

    def cut(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal too_short
        for axis, size in enumerate(next(inputs).meta.shape):
            if isinstance(size, g.Sym) and symbol in size.symbols():
                length = size.evaluate(lengths)
                too_short |= not 0 < length <= tensor.shape[axis]
                tensor = tensor if too_short else tensor.narrow(axis, 0, length)
        return tensor

    found = pytree.tree_map_only(torch.Tensor, cut, given)
    return None if too_short else found


def _agrees(model: torch.nn.Module, exported: Exported, plan: Plan, given: Any) -> bool:
    """Whether the graph gives what the model gives. What the model refuses, nobody can say."""
    args, kwargs = given
    torch.manual_seed(SEED)
    try:
        eager = run_eager(model, args, kwargs)
    except CaptureError:
        return True
    machine = Interpreter(exported.graph, exported.weights, plan, lambda _, value: value)
    torch.manual_seed(SEED)
    try:
        must_agree(exported.graph, machine.run(tensors(copied(given))), eager)
    except Exception:  # whatever an operation raises that is given other lengths than it was captured with
        return False
    return True
