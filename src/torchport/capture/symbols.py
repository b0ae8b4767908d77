"""Free dimensions: which axes are left free, how they are asked for, and what sizes depend on them.

In: example inputs and the user's wishes. Out: torch.export's `dynamic_shapes`, and our own symbols and expressions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch.export import Dim

from torchport.capture.graph import Condition, Expr, Graph, Sym, Symbol
from torchport.capture.torch_internals import Guard, alternatives_of, guards_of, limits_of, pytree
from torchport.errors import CaptureError, SpecError

Wish = dict[str, tuple[int, ...]]
"""Input name → axes that must stay free."""


def parse_dynamic(dynamic: str | Mapping[str, Any] | None) -> Wish | None:
    """The axes that a user wants free, from `input_ids:0,input_ids:1` or `{"input_ids": (0, 1)}`.

    None if the user leaves the choice to torchport; an empty text frees no axis.
    """
    if dynamic is None:
        return None
    if not isinstance(dynamic, str):
        return _checked(dynamic)
    wish: Wish = {}
    for item in filter(None, (part.strip() for part in dynamic.split(","))):
        name, colon, axis = item.rpartition(":")
        if not colon or not name or not (axis.isascii() and axis.isdigit()):
            raise SpecError(
                "TP0106",
                f"dynamic has {item!r}, which is not NAME:AXIS",
                fix="write for example input_ids:0,input_ids:1",
            )
        wish[name] = (*wish.get(name, ()), int(axis))
    return wish


def _checked(dynamic: Mapping[str, Any]) -> Wish:
    wish: Wish = {}
    for name, given in dynamic.items():
        axes = tuple(given) if isinstance(given, list | tuple) else (given,)
        if not isinstance(name, str) or not all(type(axis) is int and axis >= 0 for axis in axes):
            raise SpecError(
                "TP0106",
                f"dynamic has {name!r}: {given!r}, which is not an input's name and its axes",
                fix='write for example dynamic={"input_ids": (0, 1)}; axes count from 0',
            )
        wish[name] = axes
    return wish


def not_free(wish: Wish, error: CaptureError) -> SpecError:
    """The error for a model that can be captured, but not with the axes free that were asked for."""
    asked = ",".join(f"{name}:{axis}" for name, axes in wish.items() for axis in axes)
    said = str(error.__cause__ or error.message)
    fixed = [f"axis {axis} is always {size}" for axis, size in _SPECIALISED.findall(said)]
    fixed += [f"axis {axis} is always {size}" for size, axis in _INFERRED.findall(said)]
    if fixed:
        return SpecError(
            "TP0106",
            f"dynamic {asked} cannot be had: in this model {' and '.join(dict.fromkeys(fixed))}",
            where=error.where,
            fix="leave that axis out, or change the model so that it does not depend on that size",
        )
    return SpecError(
        "TP0106",
        f"dynamic {asked} cannot be had: with these axes free, {error.message}",
        where=error.where,
        fix="name every axis that has the same length (x:0,y:0), or leave out the one that cannot vary",
    )


_SPECIALISED = re.compile(r"size\(\)\[(\d+)\] as dynamic but your code specialized it [^(]*\((\d+)\)")
_INFERRED = re.compile(r"inferred a static shape of (\d+) for dimension [^\n]*?shape\[(\d+)\]")


def usual_axes(tensor: torch.Tensor) -> tuple[int, ...]:
    """The axes that are left free if nobody asks: the batch, and the length of token ids."""
    if tensor.ndim == 0:
        return ()
    return (0, 1) if _may_be_ids(tensor) else (0,)


def _may_be_ids(tensor: torch.Tensor) -> bool:
    return tensor.ndim == 2 and not tensor.is_floating_point() and not tensor.is_complex()


def choose_axes(inputs: Mapping[str, Any], wish: Wish | None) -> Wish:
    """The axes to leave free of each tensor input; SpecError if the wish names one that is not there."""
    tensors = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    if wish is None:
        return {name: usual_axes(tensor) for name, tensor in tensors.items()}
    for name, axes in wish.items():
        if name not in tensors:
            raise SpecError(
                "TP0106",
                f"dynamic names {name!r}, which is not a tensor input of this model",
                fix=f"the tensor inputs are: {', '.join(tensors) or 'none'}",
            )
        for axis in axes:
            if axis >= tensors[name].ndim:
                raise SpecError(
                    "TP0106",
                    f"dynamic names axis {axis} of {name!r}, which has {tensors[name].ndim} axes",
                    fix=f"its shape is {tuple(tensors[name].shape)}; count axes from 0",
                )
    return dict(wish)


def enlarged(leaves: Sequence[Any], names: Sequence[str], axes: Wish) -> list[Any]:
    """Example inputs in which every free axis is at least 2 long: torch.export fixes sizes 0 and 1."""
    result = []
    for name, leaf in zip(names, leaves, strict=True):
        for axis in axes.get(name, ()):
            if leaf.shape[axis] == 0:
                leaf = leaf.new_zeros([2 if i == axis else size for i, size in enumerate(leaf.shape)])
            elif leaf.shape[axis] == 1:
                leaf = torch.cat([leaf, leaf], dim=axis)
        result.append(leaf)
    return result


def dynamic_shapes(names: Sequence[str], axes: Wish, spec: Any, *, asked: bool) -> Any:
    """The `dynamic_shapes` of torch.export in the structure of (args, kwargs).

    An axis that the user asked for must stay free (export refuses otherwise); one that we chose may be fixed.
    """
    kind = Dim.DYNAMIC if asked else Dim.AUTO
    entries = [dict.fromkeys(axes.get(name, ()), kind) or None for name in names]
    return pytree.tree_unflatten(entries, spec)


def to_expr(value: Any, rename: Mapping[str, str]) -> Expr:
    """A sympy expression over torch's symbols as our own; CaptureError if it depends on more than input shapes."""
    if isinstance(value, int):
        return value
    if value.is_Integer:
        return int(value)
    if value.is_Symbol:
        if str(value) not in rename:
            raise CaptureError(
                "TP0202",
                f"the size {value} depends on the data, not on the shapes of the inputs",
                fix="make that size a constant of the model, or pass it as an input's shape",
            )
        return rename[str(value)]
    operation = _OPERATIONS.get(type(value).__name__)
    if operation is None:
        raise CaptureError(
            "TP0202",
            f"a size of the form {value} ({type(value).__name__}) is not supported",
            fix="record with fewer free axes: dynamic NAME:AXIS",
        )
    return (operation, *(to_expr(operand, rename) for operand in value.args))


_OPERATIONS = {
    "Add": "add",
    "Mul": "mul",
    "FloorDiv": "floordiv",
    "CleanDiv": "floordiv",
    "Mod": "mod",
    "PythonMod": "mod",
    "Pow": "pow",
    "Max": "max",
    "Min": "min",
}


def to_dim(size: int | torch.SymInt, rename: Mapping[str, str]) -> int | Sym:
    if isinstance(size, int):
        return size
    return _dim(sympy.sympify(size.node.expr), rename)


def _dim(value: Any, rename: Mapping[str, str]) -> int | Sym:
    expr = to_expr(value, rename)
    return expr if isinstance(expr, int) else Sym(expr)


def read_symbols(inputs: Mapping[str, Any]) -> dict[str, Symbol]:
    """The free sizes of example inputs, by torch's names for them, each read from the first axis that has it.

    torch takes every free size to be at least 2, which says nothing of the model.
    """
    found: dict[str, Symbol] = {}
    taken: set[str] = set()
    for name, value in inputs.items():
        if not isinstance(value, torch.Tensor):
            continue
        for axis, size in enumerate(value.shape):
            if isinstance(size, int) or not size.node.expr.is_Symbol or str(size.node.expr) in found:
                continue
            low, high = (int(limit) if limit.is_Integer else None for limit in limits_of(size))
            least = low if low is not None and low > _ASSUMED else 1
            found[str(size.node.expr)] = Symbol(
                _symbol_name(value, axis, name, taken), name, axis, least, high
            )
    return found


_ASSUMED = 2


def read_conditions(inputs: Mapping[str, Any], rename: Mapping[str, str]) -> tuple[Condition, ...]:
    """What must be so of the free sizes for a graph to stand for the model; CaptureError if it cannot be written."""
    return tuple(_condition(guard, rename) for guard in guards_of(inputs.values()))


def _condition(guard: Guard, rename: Mapping[str, str]) -> Condition:
    first, *others = (_relation(guard, one, rename) for one in alternatives_of(guard.relation))
    return replace(first, otherwise=tuple(others))


def _relation(guard: Guard, relation: Any, rename: Mapping[str, str]) -> Condition:
    sign = _RELATIONS.get(type(relation).__name__)
    if sign is None:
        raise CaptureError(
            "TP0202",
            f"the model decides by {guard.relation}, which is not supported for a free size",
            where=guard.line,
            fix="compare one size at a time, or record with fewer free axes: dynamic NAME:AXIS",
        )
    try:
        left, right = (_dim(side, rename) for side in relation.args)
    except CaptureError as error:
        raise CaptureError(error.code, error.message, where=guard.line, fix=error.fix) from error
    return Condition(left, sign, right, guard.line, guard.is_limit)


_RELATIONS = {
    "Equality": "==",
    "Unequality": "!=",
    "StrictLessThan": "<",
    "LessThan": "<=",
    "StrictGreaterThan": ">",
    "GreaterThan": ">=",
}


def measured(graph: torch.fx.Graph, taken: set[str]) -> dict[str, str]:
    """A name for each size that depends on data, by torch's name. Numbers that are read from tensors have none."""
    found: dict[str, str] = {}
    for node in graph.nodes:
        for symbol, path in (node.meta.get("unbacked_bindings") or {}).items():
            if any(getattr(key, "name", None) == "size" for key in path):
                label = f"found_{node.target.name().partition('::')[2].partition('.')[0].strip('_')}"
                number, name = 2, label
                while name in taken:
                    number, name = number + 1, f"{label}_{number}"
                taken.add(name)
                found[str(symbol)] = name
    return found


def with_examples(graph: Graph, inputs: Sequence[torch.Tensor]) -> Graph:
    """The graph with the lengths that its free sizes have in the example inputs."""
    sizes = graph.bindings_of([tuple(tensor.shape) for tensor in inputs])
    return replace(graph, symbols=tuple(replace(one, example=sizes[one.name]) for one in graph.symbols))


def _symbol_name(tensor: torch.Tensor, axis: int, input_name: str, taken: set[str]) -> str:
    if axis == 0:
        label = "batch"
    elif axis == 1 and _may_be_ids(tensor):
        label = "seq_len"
    else:
        label = f"{re.sub(r'[^0-9a-z]+', '_', input_name.lower()).strip('_') or 'input'}_dim{axis}"
    number = 2
    unique = label
    while unique in taken:
        unique, number = f"{label}_{number}", number + 1
    taken.add(unique)
    return unique
