"""Whether a plain graph can be computed by weighted sums and activations. What cannot be is refused by name."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from torchport.errors import GraphFileError
from torchport.targets.marble.exchange.labels import Labels
from torchport.targets.marble.exchange.plain import Bools, Plain
from torchport.targets.marble.groups import Kind

SUMS = ("standard", "linear", Kind.WEIGHTED_SUM.value)
NAMED_BY_TYPE = ("relu", "sigmoid", "tanh")
"""Types of MARBLE's that say which activation a neuron has."""
TYPES = (Kind.INPUT.value, Kind.CONSTANT.value, Kind.FUNCTION.value, *SUMS, *NAMED_BY_TYPE)


def is_input(plain: Plain) -> Bools:
    """Which neurons are given their values: those of the type `input`.

    A graph that knows no such type, as MARBLE's own do, is given the values of plain neurons that nothing arrives at.
    """
    types = plain.neurons.neuron_type
    if Kind.INPUT.value in types.names and np.any(types.rows_of(Kind.INPUT.value)):
        return types.rows_of(Kind.INPUT.value)
    arriving = np.bincount(plain.synapses.target, minlength=len(plain.neurons))
    is_plain = (types.rows_of("standard") | types.rows_of("linear")) & plain.neurons.activation.rows_of("")
    return np.asarray(is_plain & (arriving == 0) & (plain.neurons.bias == 0))


def must_be_computable(plain: Plain) -> None:
    """GraphFileError that names the first neuron or synapse that is more than a weighted sum with an activation."""
    neurons, synapses = plain.neurons, plain.synapses
    arriving = np.bincount(synapses.target, minlength=len(neurons))
    is_given = is_input(plain) | neurons.neuron_type.rows_of(Kind.CONSTANT.value)
    is_function = neurons.neuron_type.rows_of(Kind.FUNCTION.value)
    is_bare = is_function & neurons.activation.rows_of("")
    wrong = {
        "is computed by more than a weighted sum and an activation": _others(neurons.neuron_type, TYPES),
        "does not compute anything, and synapses go to it": is_given & (arriving > 0),
        "is a function, and does not say which": is_bare,
        "is a function of one value, and has another number of synapses": is_function & (arriving != 1),
        "has a bias that is no finite number": ~np.isfinite(neurons.bias),
    }
    for reason, rows in wrong.items():
        if np.any(rows):
            refuse(plain, int(np.argmax(rows)), reason)
    other_types, infinite = _others(synapses.synapse_type, ("standard",)), ~np.isfinite(synapses.weight)
    for reason, rows in (
        ("is of a kind of its own", other_types),
        ("has a weight that is no finite number", infinite),
    ):
        if np.any(rows):
            row = int(np.argmax(rows))
            told = f"a synapse of the type {synapses.synapse_type[row]!r} {reason}"
            raise GraphFileError("TP0368", told, where=f"synapses[{row}]")
    _must_be_padded_with_zero(plain.metadata.get("padding"))


def _others(labels: Labels, known: tuple[str, ...]) -> Bools:
    is_known = np.array([name in known for name in labels.names] or [True])
    return np.asarray(~is_known[labels.codes])


def _must_be_padded_with_zero(padding: Any) -> None:
    if padding is not None and not (type(padding) is dict and padding.get("is_zero") is True):
        raise GraphFileError(
            "TP0368",
            "synapses were left out that came from padding with another value than 0",
            where="metadata.padding",
        )


def refuse(plain: Plain, row: int, reason: str) -> NoReturn:
    neurons = plain.neurons
    detail = f" ({neurons.formula[row]})" if neurons.formula[row] else ""
    raise GraphFileError(
        "TP0368",
        f"neuron {row} of the type {neurons.neuron_type[row]!r}{detail} {reason}",
        where=f"neurons[{row}]",
    )
