"""Operations as people name them: `aten.convolution`, `aten::convolution`, `torch.nn.functional.conv2d`, or objects."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any

import torch

from torchport.capture.torch_internals import HigherOrderOperator, OpOverload, OpOverloadPacket
from torchport.debug.internals.operations import is_composite, operation_names

Operation = str | Callable[..., Any]


def packet_of(name: str) -> str:
    """The name of an operation without its overload: `aten.convolution` of `aten.convolution.default`."""
    return ".".join(name.split(".")[:2])


def full_names(given: Operation) -> frozenset[str]:
    """The names under which graphs hold an operation; none if torch does not know it.

    An overload has one name, and an operation without an overload that of each of its overloads. A function such as
    `torch.relu` is in graphs of Dynamo's by its own name; it also stands for the ATen operation of the same name, so
    that `Tensor.relu` and `torch.nn.functional.relu`, which call that too, are meant as well.
    """
    if isinstance(given, OpOverload):
        return frozenset({str(given)})
    if isinstance(given, OpOverloadPacket):
        return frozenset(f"{given}.{overload}" for overload in given.overloads())  # type: ignore[no-untyped-call]
    if isinstance(given, HigherOrderOperator):
        return frozenset({f"higher_order.{given._name}"})
    if isinstance(given, str):
        return _names_of_text(given)
    return _names_of_function(given)


def _names_of_text(given: str) -> frozenset[str]:
    text = given.removeprefix("torch.ops.").replace("::", ".")
    known = _operation(text) if not text.startswith(("torch.", "operator.")) else _function(text)
    return frozenset() if known is None else full_names(known)


def _operation(text: str) -> Any:
    space, _, rest = text.partition(".")
    packet, _, overload = rest.partition(".")
    if space == "higher_order":
        return getattr(torch.ops.higher_order, packet, None)
    if text not in _known() or not packet:
        return None
    found = getattr(getattr(torch.ops, space), packet)
    return getattr(found, overload) if overload else found


def _function(text: str) -> Any:
    """What a dotted name of torch or operator stands for, if that is a function."""
    module, _, rest = text.partition(".")
    found: Any = import_module(module)
    for part in rest.split("."):
        found = getattr(found, part, None)
    return found if callable(found) and not isinstance(found, type) else None


def _names_of_function(function: Callable[..., Any]) -> frozenset[str]:
    name = torch.overrides.resolve_name(function)  # type: ignore[no-untyped-call]
    if name is None and getattr(operator, getattr(function, "__name__", ""), None) is function:
        name = f"operator.{function.__name__}"
    if name is None:
        return frozenset()
    own = name.rpartition(".")[2].strip("_")
    same = [_operation(f"{space}.{own}") for space in ("aten", "higher_order")]
    return frozenset({name}).union(*(full_names(one) for one in same if one is not None))


def _known() -> frozenset[str]:
    return _known_names(operation_names())


@lru_cache(maxsize=2)
def _known_names(overloads: tuple[str, ...]) -> frozenset[str]:
    return frozenset(overloads) | frozenset(packet_of(name) for name in overloads)


def needs_whole_operations(names: Iterable[str]) -> bool:
    """Whether one of the operations is not in ATen graphs, which break it down or do without its writing in place."""
    known = (
        _operation(name) for name in names if not name.startswith(("torch.", "operator.", "higher_order."))
    )
    return any(
        isinstance(one, OpOverload) and (is_composite(one) or one._schema.name.endswith("_")) for one in known
    )


def names_of_node(op: str, known_as: Iterable[str]) -> Iterator[str]:
    """The names to look for, of a node: its own, and without the underscore if it writes in place, as `aten.relu_`."""
    for name in (op, *known_as):
        yield name
        space, _, rest = name.partition(".")
        packet, dot, overload = rest.partition(".")
        if packet.endswith("_") and not packet.endswith("__"):
            yield f"{space}.{packet.removesuffix('_')}{dot}{overload}"


@lru_cache(maxsize=1)
def _functions() -> frozenset[str]:
    by_owner = torch.overrides.get_overridable_functions()  # type: ignore[no-untyped-call]
    resolved = (torch.overrides.resolve_name(one) for all_of in by_owner.values() for one in all_of)  # type: ignore[no-untyped-call]
    of_operator = (f"operator.{name}" for name in operator.__all__)
    return frozenset({*filter(None, resolved), *of_operator})


def all_names() -> frozenset[str]:
    """Every name that an operation of a graph can have: operations with and without overload, and functions."""
    return _known() | _functions()


def suggestion(name: str) -> str | None:
    """The known name that is closest to one that is not."""
    text = name.removeprefix("torch.ops.").replace("::", ".")
    close = difflib.get_close_matches(text, all_names(), n=1, cutoff=0.7)
    last = text.rpartition(".")[2].lower()
    if f"aten.{last}" in _known():
        close = [f"aten.{last}"]
    return f"Did you mean {close[0]}?" if close else None
