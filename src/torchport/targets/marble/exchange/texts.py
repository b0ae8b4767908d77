"""A neuron graph as the text of JSON, piece by piece, so that a large graph never is one string.

There are two forms. MARBLE's form is, letter by letter, what MARBLE itself writes; the checksum of a legacy snapshot is
that of this text. The full form has the same keys first, which is all that MARBLE's loader reads, and then what a
`Plain` has beside them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from torchport.targets.marble.exchange.extras import EXTRAS_KEY, extras_of
from torchport.targets.marble.exchange.labels import Labels
from torchport.targets.marble.exchange.plain import Floats, Integers, Neurons, Plain, Synapses

ROWS_AT_A_TIME = 16_384

Column = Callable[[slice], Iterable[str]]
"""Gives the JSON texts of some rows."""


def full_form(plain: Plain) -> Iterator[str]:
    """Every neuron and every synapse on a line of its own."""
    yield '{"neurons": ['
    yield from _objects(_columns_of_neurons(plain.neurons), len(plain.neurons), ",\n")
    yield '],\n"synapses": ['
    yield from _objects(_columns_of_synapses(plain.synapses), len(plain.synapses), ",\n")
    yield f'],\n"{EXTRAS_KEY}": {json.dumps(extras_of(plain))}}}\n'


def marble_form(plain: Plain) -> Iterator[str]:
    """The text that MARBLE's own `core_to_json` gives for this graph."""
    columns = _columns_of_neurons(plain.neurons)
    yield '{"neurons": ['
    yield from _objects({key: columns[key] for key in MARBLE_KEYS}, len(plain.neurons), ", ")
    yield '], "synapses": ['
    yield from _objects(_columns_of_synapses(plain.synapses), len(plain.synapses), ", ")
    yield "]}"


MARBLE_KEYS = ("id", "value", "tier", "formula")


def _columns_of_neurons(neurons: Neurons) -> dict[str, Column]:
    return {
        "id": _integers(np.arange(len(neurons))),
        "value": _floats(neurons.value),
        "tier": _names(neurons.tier),
        "formula": _names(neurons.formula, empty="null"),
        "neuron_type": _names(neurons.neuron_type),
        "params": _params(neurons),
        "group": _names(neurons.group),
    }


def _columns_of_synapses(synapses: Synapses) -> dict[str, Column]:
    return {
        "source": _integers(synapses.source),
        "target": _integers(synapses.target),
        "weight": _floats(synapses.weight),
        "potential": _floats(synapses.potential),
        "synapse_type": _names(synapses.synapse_type),
    }


def _params(neurons: Neurons) -> Column:
    """The parameters of each neuron, an object within the object."""
    template = '{"activation": %s, "activation_flag": %s, "bias": %s}'
    activation, bias = _names(neurons.activation, empty="null"), _floats(neurons.bias)
    flags = ("false", "true")

    def texts(rows: slice) -> Iterable[str]:
        flag = [flags[value] for value in neurons.activation_flag[rows].tolist()]
        return map(template.__mod__, zip(activation(rows), flag, bias(rows)))

    return texts


def _objects(columns: dict[str, Column], count: int, between: str) -> Iterator[str]:
    template = "{" + ", ".join(f'"{key}": %s' for key in columns) + "}"
    for first in range(0, count, ROWS_AT_A_TIME):
        rows = slice(first, first + ROWS_AT_A_TIME)
        texts = map(template.__mod__, zip(*(column(rows) for column in columns.values())))
        yield (between if first else "") + between.join(texts)


def _integers(values: Integers) -> Column:
    return lambda rows: map(str, values[rows].tolist())


def _floats(values: Floats) -> Column:
    def texts(rows: slice) -> Iterable[str]:
        some: npt.NDArray[np.float64] = values[rows]
        return map(repr if np.isfinite(some).all() else json.dumps, some.tolist())

    return texts


def _names(labels: Labels, empty: str = '""') -> Column:
    texts = [json.dumps(name) if name else empty for name in labels.names]
    return lambda rows: labels.chosen(texts, rows)
