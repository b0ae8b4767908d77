"""Smaller inputs and plainer values for a case. What eager PyTorch cannot compute, or makes NaN of, is never tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations_with_replacement
from typing import Any

import torch
from torch import Tensor

from torchport.capture.torch_internals import OpOverload, pytree
from torchport.debug.minifier.case import GraphCase
from torchport.debug.minifier.comparing import results_of
from torchport.debug.minifier.laboratory import Laboratory
from torchport.explain.case import SIZE_ARGUMENTS
from torchport.explain.literals import counted

_METHODS_OF_SIZES = {
    "view",
    "reshape",
    "expand",
    "repeat",
    "new_zeros",
    "new_ones",
    "new_full",
    "new_empty",
    "split",
}
_SMALL = 2
_MOST_SIZE_TRIES = 8
_GRIDS = (1, 4, 64)
"""Steps between two whole numbers, the coarsest grid first."""


def smallest_sizes(case: GraphCase, laboratory: Laboratory) -> GraphCase:
    """The case with axes as short as it still fails with: all at once if possible, else one size after the other."""
    start = laboratory.queries
    every = {size: min(size, _SMALL) for size in _sizes(case)}
    for sizes in (every, {old: min(old, 2 * _SMALL) for old in every}):
        smaller = resized(case, sizes)
        if smaller is not None and laboratory.fails(smaller):
            return smaller
    for old in sorted(every, reverse=True):
        for new in dict.fromkeys((_SMALL, 4, old // 4, old // 2)):
            if not 0 < new < old or laboratory.queries - start >= _MOST_SIZE_TRIES:
                continue
            smaller = resized(case, {old: new})
            if smaller is not None and laboratory.fails(smaller):
                case = smaller
                break
    return case


def plainest_values(case: GraphCase, laboratory: Laboratory) -> GraphCase:
    """The case with ones, then small whole numbers, then rounded values: the first with which it still fails."""
    changes: list[Callable[[Tensor], Tensor]] = [torch.ones_like, counted, *map(_rounded_to, _GRIDS)]
    for change in changes:
        plainer = _checked(case, _with_values(case, change))
        if plainer is not None and laboratory.fails(plainer):
            return plainer
    return case


def resized(case: GraphCase, sizes: Mapping[int, int]) -> GraphCase | None:
    """The case with every axis of these sizes cut, in inputs and among the arguments; None if that makes no sense."""
    if all(old == new for old, new in sizes.items()):
        return None
    module = case.fresh_module()
    every = {**{size: size for size in _sizes(case)}, **sizes}
    for node in module.graph.nodes:
        if node.op in ("call_function", "call_method"):
            node.args, node.kwargs = _with_sizes(node, every)
    module.recompile()
    inputs = tuple(_cut(value, sizes) for value in case.inputs)
    return _checked(case, GraphCase(module, inputs))


def _checked(before: GraphCase, after: GraphCase) -> GraphCase | None:
    """The case after a change, or None if eager PyTorch cannot run it, gives nothing, or gives a new NaN."""
    try:
        old, new = (_outputs(case) for case in (before, after))
    except Exception:
        return None
    if not all(tensor.numel() for tensor in new):
        return None
    has_new_nan = all(map(_is_finite, old)) and not all(map(_is_finite, new))
    return None if has_new_nan or [t.dtype for t in old] != [t.dtype for t in new] else after


def _outputs(case: GraphCase) -> list[Tensor]:
    found = results_of(case.fresh_module(), case, backward=False).values
    return [leaf for leaf in pytree.tree_leaves(found) if isinstance(leaf, Tensor)]


def _is_finite(tensor: Tensor) -> bool:
    return bool(tensor.detach().isfinite().all())


def _sizes(case: GraphCase) -> list[int]:
    tensors = [value for value in case.inputs if isinstance(value, Tensor)]
    return sorted({size for tensor in tensors for size in tensor.shape if size > 1})


def _cut(value: Any, sizes: Mapping[int, int]) -> Any:
    """A tensor with its axes cut, in the same order of strides; an index that would be out of bounds wraps around."""
    if not isinstance(value, Tensor):
        return sizes.get(value, value) if type(value) is int else value
    cut = value.detach()
    for axis, size in enumerate(value.shape):
        cut = cut.narrow(axis, 0, sizes.get(size, size))
    if cut.dtype == torch.int64 and cut.numel():
        cut = cut % min(
            [new for old, new in sizes.items() if new < old and int(value.max()) < old], default=2**62
        )
    return torch.empty_like(cut).copy_(cut).requires_grad_(value.requires_grad)


def _with_sizes(node: torch.fx.Node, sizes: Mapping[int, int]) -> tuple[Any, Any]:
    """The arguments of a node with the sizes of axes among them changed."""

    def changed(name: str | None, value: Any) -> Any:
        if name is not None and name not in SIZE_ARGUMENTS:
            return value
        return torch.fx.node.map_aggregate(value, lambda item: _new_size(item, sizes))

    if isinstance(node.target, OpOverload):
        names = [argument.name for argument in node.target._schema.arguments]
        args = tuple(changed(name, value) for name, value in zip(names, node.args, strict=False))
        return args, {name: changed(name, value) for name, value in node.kwargs.items()}
    if node.op == "call_method" and node.target in _METHODS_OF_SIZES:
        return (node.args[0], *changed(None, node.args[1:])), changed(None, node.kwargs)
    return node.args, {name: changed(name, value) for name, value in node.kwargs.items()}


def _new_size(item: Any, sizes: Mapping[int, int]) -> Any:
    """A size as it becomes; one that is the product of two others becomes the product of theirs."""
    if type(item) is not int or item in sizes:
        return sizes.get(item, item) if type(item) is int else item
    pairs = combinations_with_replacement(sizes, 2)
    return next((sizes[one] * sizes[two] for one, two in pairs if one * two == item), item)


def _with_values(case: GraphCase, change: Callable[[Tensor], Tensor]) -> GraphCase:
    def changed(value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        made = torch.empty_like(value).copy_(change(value.detach()))
        return made.requires_grad_(value.requires_grad)

    return GraphCase(case.module, tuple(changed(value) for value in case.inputs))


def _rounded_to(steps: int) -> Callable[[Tensor], Tensor]:
    return lambda tensor: (tensor * steps).round() / steps
