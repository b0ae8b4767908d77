"""Runs torch.export on a model, and makes the program functional.

In: a model and example inputs. Out: our own `Graph`, which `convert.py` makes of the program, and its weights.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture import source, symbols
from torchport.capture.convert import Converter
from torchport.capture.decompositions import DECOMPOSITIONS
from torchport.capture.exported import Exported
from torchport.capture.packed import lengths_left_free, packed_as_padded
from torchport.capture.simplify import HANDLED
from torchport.capture.torch_internals import (
    FixedSize,
    lines_of_helpers_kept,
    preserve_node_meta,
    pytree,
    sizes_fixed,
)
from torchport.capture.weights import MemoryWeights, Weights
from torchport.errors import CaptureError

__all__ = ["Decompose", "Exported", "export", "flatten_inputs", "weights_of"]

Decompose = Callable[[str], bool]
"""Says of an operation's full name whether it is to be decomposed into simpler ones."""


def flatten_inputs(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[list[Any], list[str], Any]:
    """The leaves of the inputs, a name for each (`input_ids`, `batch.mask`), and their structure."""
    names = _parameter_names(model, len(args))
    named: list[tuple[str, Any]] = [*zip(names, args, strict=False), *kwargs.items()]
    labels = []
    for name, value in named:
        paths, _ = pytree.tree_flatten_with_path(value)
        labels += [name + "".join(_suffix(key) for key in path) for path, _ in paths]
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    return leaves, labels, spec


def _suffix(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return f".{getattr(key, attribute)}"
    return f".{key}"


def _parameter_names(model: torch.nn.Module, count: int) -> list[str]:
    names: list[str] = []
    for name, parameter in inspect.signature(model.forward).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{name}{i}" for i in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(name)
    return names[:count]


def export(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    name: str,
    wish: symbols.Wish | None = None,
    decompose: Decompose | None = None,
) -> Exported:
    """Captures the graph of a model; without a wish, the axes that usually vary are left free."""
    leaves, labels, spec = flatten_inputs(model, args, kwargs)
    axes = symbols.choose_axes(dict(zip(labels, leaves, strict=True)), wish)
    with sizes_fixed() as fixed:
        program = _run_export(model, leaves, labels, spec, axes, wish is not None)
    program = _functionalise(program, decompose)
    return replace(
        Converter(model, program, name, labels).convert(), fixed_by=_fixed_by(fixed, leaves, labels)
    )


def _fixed_by(
    fixed: Sequence[FixedSize], leaves: Sequence[Any], labels: Sequence[str]
) -> dict[tuple[int, int], str]:
    """The lines that fixed axes, by the number of the tensor input and the axis."""
    tensors = [label for label, leaf in zip(labels, leaves, strict=True) if isinstance(leaf, torch.Tensor)]
    # What is `args0` here is `args.0` in torch, if forward takes `*args`.
    numbers = {label.replace(".", ""): number for number, label in enumerate(tensors)}
    found: dict[tuple[int, int], str] = {}
    for one in fixed:
        number = numbers.get(one.input.replace(".", ""))
        if number is not None and one.line is not None:
            found.setdefault((number, one.axis), one.line)
    return found


def _run_export(
    model: torch.nn.Module, leaves: list[Any], labels: list[str], spec: Any, axes: symbols.Wish, asked: bool
) -> torch.export.ExportedProgram:
    example = pytree.tree_unflatten(symbols.enlarged(leaves, labels, axes), spec)
    shapes = symbols.dynamic_shapes(labels, axes, spec, asked=asked)
    args_shapes, kwargs_shapes = shapes
    try:
        # Without the context, the operations inside torch.cond and the like lose their lines and modules.
        with preserve_node_meta(), lines_of_helpers_kept(source.is_helper), packed_as_padded():
            return torch.export.export(
                model,
                example[0],
                example[1],
                # torch 2.11 fails on shapes for `**kwargs`, also if they leave no axis free.
                dynamic_shapes=(
                    _by_parameter(model, args_shapes, kwargs_shapes) if any(axes.values()) else None
                ),
                strict=False,
            )
    except Exception as error:  # torch.export raises whatever the model's code raises
        raise CaptureError(
            "TP0202",
            f"torch.export could not capture the model: {_first_lines(error)}",
            where=source.user_line(error),
            fix="rewrite that line so that it does not depend on tensor values, or say which axes are "
            "free: dynamic NAME:AXIS",
        ) from error


def _by_parameter(model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The shapes by the names of forward's parameters, as torch.export takes them, with `*args` as one tuple."""
    result: dict[str, Any] = {}
    rest = list(args)
    extra = dict(kwargs)
    for name, parameter in inspect.signature(model.forward).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            result[name], rest = tuple(rest), []
        elif parameter.kind is parameter.VAR_KEYWORD:
            result[name], extra = extra, {}
        elif rest and parameter.kind is not parameter.KEYWORD_ONLY:
            result[name] = rest.pop(0)
        elif name in extra:
            result[name] = extra.pop(name)
    return {name: value for name, value in result.items() if value not in ((), {})}


def _first_lines(error: Exception, count: int = 3) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:count])}"[:500]


def _functionalise(
    program: torch.export.ExportedProgram, decompose: Decompose | None
) -> torch.export.ExportedProgram:
    """The program without operations in place; high-level operations stay whole unless `decompose` says otherwise."""
    _hide_constants_of_bodies(program.graph_module)
    table = {**torch.export.default_decompositions(), **DECOMPOSITIONS} if decompose is not None else {}
    chosen = {
        op: rule for op, rule in table.items() if str(op) not in HANDLED and decompose and decompose(str(op))
    }
    with lengths_left_free():
        functional: torch.export.ExportedProgram = program.run_decompositions(chosen)
    return functional


def _hide_constants_of_bodies(module: torch.nn.Module) -> None:
    """Makes tensors that bodies of torch.cond and the like hold plain attributes instead of buffers.

    torch takes the buffers of the whole program for state that is functionalised, and fails on those of bodies.
    """
    for body in module.children():
        for name, tensor in list(body.named_buffers(recurse=False)):
            delattr(body, name)
            vars(body)[name] = tensor
        _hide_constants_of_bodies(body)


def weights_of(model: torch.nn.Module, graph: g.Graph, constants: Mapping[str, torch.Tensor]) -> Weights:
    """The tensors that a graph reads: the model's own, and the constants that export took out of its code."""
    own = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    found = {}
    for name, weight in graph.weights.items():
        tensor = constants.get(name) if weight.kind == "constant" else own.get(name)
        if tensor is None or tuple(tensor.shape) != weight.meta.shape:
            shape = "is missing" if tensor is None else f"has shape {tuple(tensor.shape)}"
            raise CaptureError(
                "TP0202",
                f"the port was made with {name!r} of shape {weight.meta.shape}, which {shape} in this model",
                fix="check a port with the model that it was made from, or port this one anew",
            )
        found[name] = tensor.detach()
    return MemoryWeights(found)
