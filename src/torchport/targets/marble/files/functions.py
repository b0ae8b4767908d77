"""Which function the name of an activation stands for in a plain graph, by its metadata or by the plugins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from torchport.capture import operations
from torchport.capture.arguments import decode
from torchport.errors import GraphFileError, TorchportError
from torchport.targets.marble import activations
from torchport.targets.marble.composer import Composer, Value
from torchport.targets.marble.exchange.plain import Neurons
from torchport.targets.marble.files.computable import NAMED_BY_TYPE
from torchport.targets.marble.groups import Kind
from torchport.targets.marble.recipes.functions import FUNCTIONS


@dataclass(frozen=True)
class Function:
    """A function of one value, with its options."""

    name: str
    work: str
    argument: str
    options: Mapping[str, Any]

    def of(self, composer: Composer, value: Value, row: int) -> Value:
        """The neurons that compute it of some values, the first of which is this row."""
        try:
            made = self._made(composer, value)
        except TorchportError as error:
            raise self._refused(row, error.message) from error
        except (RuntimeError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise self._refused(row, str(error).strip().splitlines()[0][:200]) from error
        if made.form != value.form:
            raise self._refused(row, "its result is of another shape or dtype than what arrives")
        return made

    def _made(self, composer: Composer, value: Value) -> Value:
        if "inplace" in self.options:
            raise ValueError("it would write over what arrives")
        if activations.is_activation(self.work):
            activations.apply(self.work, torch.zeros(1, dtype=getattr(torch, value.dtype)), self.options)
            return composer.add(Kind.FUNCTION, self.work, [value], dict(self.options))
        known = {one.name for one in operations.arguments(self.work)}
        if unknown := sorted({self.argument, *self.options} - known):
            raise ValueError(f"{self.work} has no argument {unknown[0]!r:.40}")
        given = [(self.argument, value)]
        return composer.operation(Kind.FUNCTION, self.work, given, self.options)[0]

    def _refused(self, row: int, reason: str) -> GraphFileError:
        return GraphFileError(
            "TP0368",
            f"neuron {row} has the activation {self.name!r}, which cannot be computed: {reason}",
            where=f"neurons[{row}]",
        )


def function_of(neurons: Neurons, row: int, metadata: Mapping[str, Any]) -> Function | None:
    """The function of a neuron; None if it is only a weighted sum."""
    name, kind = neurons.activation[row], neurons.neuron_type[row]
    if not name and kind in NAMED_BY_TYPE:
        name = kind
    if not name:
        return None
    described = metadata.get("activations", {})
    if type(described) is dict and name in described:
        return _described(name, described[name])
    if name in activations.activations():
        return Function(name, f"{activations.PREFIX}{name}", "self", {})
    raise GraphFileError(
        "TP0368",
        f"neuron {row} of the type {kind!r} has the activation {name!r}, which is not known",
        where=f"neurons[{row}]",
        fix="Register it with torchport.marble.activation, and load the file again.",
    )


def _is_function(work: str) -> bool:
    return work in FUNCTIONS or activations.is_activation(work)


def _described(name: str, entry: Any) -> Function:
    where = f"metadata.activations.{name[:40]}"
    if type(entry) is not dict or type(entry.get("options", {})) is not dict:
        raise GraphFileError("TP0362", "it is not an object with a work and options", where=where)
    work, argument = entry.get("work"), entry.get("argument", "self")
    if type(work) is not str or type(argument) is not str or not _is_function(work):
        raise GraphFileError("TP0362", "its work is no function of one value", where=where)
    try:
        options = {key: decode(value) for key, value in entry.get("options", {}).items()}
    except (ValueError, RecursionError) as error:
        raise GraphFileError("TP0362", str(error)[:200], where=where) from error
    return Function(name, work, argument, options)
