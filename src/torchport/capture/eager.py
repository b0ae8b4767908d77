"""Runs the model as it is, and checks that its inputs and outputs can be recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from torchport.capture.graph import Dim, Graph, Input
from torchport.capture.source import modules_running, user_line
from torchport.capture.state import copied, state_kept
from torchport.capture.torch_internals import pytree, storage_id
from torchport.errors import CaptureError, UsageError


def run_eager(model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    if isinstance(model, torch.jit.ScriptModule):
        raise CaptureError(
            "TP0202",
            "a TorchScript model has no forward that torch.export can follow",
            fix="record the nn.Module that it was made from",
        )
    if any(is_lazy(tensor) for tensor in [*model.parameters(), *model.buffers()]):
        raise CaptureError(
            "TP0201",
            "the model has lazy layers, whose weights do not exist yet",
            fix="run model(*args, **kwargs) once before it is recorded",
        )
    _must_be_dense("an input", (args, dict(kwargs)))
    result = _run(model, args, kwargs)
    _must_be_dense("an output", result)
    outputs = tensors(result)
    if not outputs:
        raise CaptureError("TP0205", f"{type(model).__name__} returns no tensor: there is nothing to record")
    return outputs


def _must_be_dense(role: str, tree: Any) -> None:
    for tensor in tensors(tree):
        kind = "quantized" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
        if kind != "strided":
            raise CaptureError("TP0205", f"{role} is a {kind} tensor", fix="give and return dense tensors")


def _run(model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    inputs = copied((args, dict(kwargs)))
    try:
        with state_kept(model):
            return _apart(model, model(*inputs[0], **inputs[1]))
    except Exception as error:
        raise CaptureError(
            "TP0201",
            f"the model fails its own forward pass: {type(error).__name__}: {error}",
            where=_place(model, error),
            fix="run model(*args, **kwargs) in Python until it works, then record it",
        ) from error


def _apart(model: torch.nn.Module, result: Any) -> Any:
    """A result in memory of its own: what the model keeps in its buffers is put back after the run."""
    kept = {storage_id(tensor) for tensor in model.buffers()}
    return pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor.clone() if storage_id(tensor) in kept else tensor, result
    )


def _place(model: torch.nn.Module, error: Exception) -> str | None:
    """The innermost module that was running when its forward failed, and the line of the user's code."""
    paths = {module: path for path, module in model.named_modules()}
    running = [module for module in modules_running(error) if module in paths]
    line = user_line(error)
    if not running:
        return line
    inner = running[-1]
    name = f"{paths[inner]} ({type(inner).__name__})" if paths[inner] else type(inner).__name__
    return name if line is None else f"{name} at {line}"


def must_be_recordable(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """CaptureError if an input or output is of a class that cannot be recorded, which export reports otherwise."""
    trees = {"an input": (args, kwargs), "an output": _run(model, args, kwargs)}
    for role, tree in trees.items():
        for leaf in pytree.tree_leaves(tree):
            if not (leaf is None or isinstance(leaf, torch.Tensor | bool | int | float | str)):
                kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}"
                raise CaptureError("TP0205", f"{role} of the model is of class {kind}")


def as_arguments(args: Any) -> tuple[Any, ...]:
    """Positional inputs: a tensor alone is the only one."""
    if isinstance(args, torch.Tensor):
        return (args,)
    if not isinstance(args, tuple | list):
        message = f"args is of type {type(args).__name__}"
        raise UsageError(
            "TP0801", message, fix="Give a tensor, or a tuple or list of what the model is called with."
        )
    return tuple(args)


def tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def on_meta(model: torch.nn.Module, inputs: Any) -> bool:
    return any(t.is_meta for t in [*model.parameters(), *model.buffers(), *tensors(inputs)])


def where_the_model_is(model: torch.nn.Module, inputs: Any) -> Any:
    """The inputs on the meta device if the model is there: then only their shapes matter."""
    if not any(tensor.is_meta for tensor in [*model.parameters(), *model.buffers()]):
        return inputs
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), inputs)


Limits = Mapping[str, tuple[int, int | None]]
"""The least and the greatest length of free sizes."""


def must_fit(graph: Graph, inputs: list[torch.Tensor]) -> None:
    """CaptureError if inputs differ from the recorded ones in more than the lengths of free axes."""
    wanted = graph.root.inputs
    if len(inputs) != len(wanted):
        raise CaptureError("TP0208", f"the port takes {len(wanted)} tensors, and is given {len(inputs)}")
    free: dict[str, int] = {}
    limits = {symbol.name: (symbol.low, symbol.high) for symbol in graph.symbols}
    for item, tensor in zip(wanted, inputs, strict=True):
        if not _fits(item, tensor, free, limits):
            shape = ", ".join(_written(dim, limits) for dim in item.meta.shape)
            raise CaptureError(
                "TP0208",
                f"the port takes {item.name!r} as {item.meta.dtype} [{shape}], and is given "
                f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}",
                fix="give inputs of that kind, or port the model with that axis free: dynamic NAME:AXIS",
            )
    must_fulfil(graph, free)


def must_fulfil(graph: Graph, sizes: Mapping[str, int]) -> None:
    """CaptureError if the model may do something else at these sizes than the graph says."""
    for condition in graph.conditions:
        if not condition.holds(sizes):
            found = ", ".join(f"{name} is {sizes[name]}" for name in sorted(condition.symbols()))
            raise CaptureError(
                "TP0208",
                f"the graph stands for the model where {condition}, and here {found}",
                where=condition.source,
                fix="give inputs for which that is so, or port the model anew with these",
            )


def _written(dim: Dim, limits: Limits) -> str:
    """A size as a reader would write it, with the lengths that it may have."""
    if isinstance(dim, int):
        return str(dim)
    low, high = limits.get(str(dim.expr), (1, None))
    return f"{f'{low}<=' if low > 1 else ''}{dim.expr}{'' if high is None else f'<={high}'}"


def _fits(item: Input, tensor: torch.Tensor, free: dict[str, int], limits: Limits) -> bool:
    if str(tensor.dtype) != f"torch.{item.meta.dtype}" or tensor.ndim != item.meta.rank:
        return False
    for dim, size in zip(item.meta.shape, tensor.shape, strict=True):
        if isinstance(dim, int):
            if dim != size:
                return False
        elif isinstance(dim.expr, str):
            low, high = limits.get(dim.expr, (1, None))
            # A model of no elements is no other model, if one of one element is not.
            is_within = (size >= low or low == 1) and (high is None or size <= high)
            if free.setdefault(dim.expr, size) != size or not is_within:
                return False
    return True
