"""The plain form of a neuron graph, which every exchange format can write and read: columns of arrays.

    Plain
    ├── neurons    value, neuron_type, activation, activation_flag, bias, group, tier, formula
    ├── synapses   source, target, weight, potential, synapse_type
    ├── metadata   a tree of plain values
    └── hidden_states   arrays by name

The id of a neuron is its row. Fields have MARBLE's names. A `Plain` that exists is consistent: whatever is wrong in
the columns raises a GraphFileError when it is made. NaN and infinities are numbers like others, since weights and masks
have them. Several synapses may join the same two neurons; their messages add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from torchport.errors import GraphFileError
from torchport.targets.marble.exchange.labels import Labels, require_text
from torchport.targets.marble.exchange.trees import checked_tree

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Names = Labels | Iterable[str] | str

STATE_KINDS = "biuf"
MOST_DIMENSIONS = 16


@dataclass(frozen=True, eq=False)
class Neurons:
    """A row for each neuron. `formula` is empty if there is none, and so are `activation` and `group`."""

    value: Floats
    neuron_type: Labels
    activation: Labels
    activation_flag: Bools
    bias: Floats
    group: Labels
    tier: Labels
    formula: Labels

    @classmethod
    def of(
        cls,
        value: Any,
        neuron_type: Names = "standard",
        activation: Names = "",
        activation_flag: Any = False,
        bias: Any = 0.0,
        group: Names = "",
        tier: Names = "vram",
        formula: Names = "",
    ) -> Neurons:
        """Neurons from arrays of numpy or torch, or from one value for all where `value` says how many there are."""
        values = _floats(value, "neurons.value")
        count = len(values)
        return cls(
            values,
            _labels(neuron_type, count),
            _labels(activation, count),
            _bools(_spread(activation_flag, count), "neurons.activation_flag"),
            _floats(_spread(bias, count), "neurons.bias"),
            _labels(group, count),
            _labels(tier, count),
            _labels(formula, count),
        )

    def __post_init__(self) -> None:
        _require_equal_lengths(self, "neurons")

    def __len__(self) -> int:
        return len(self.value)

    @property
    def ids(self) -> range:
        return range(len(self))


@dataclass(frozen=True, eq=False)
class Synapses:
    """A row for each synapse: it carries `weight` times what its source gives to its target."""

    source: Integers
    target: Integers
    weight: Floats
    potential: Floats
    synapse_type: Labels

    @classmethod
    def of(
        cls, source: Any, target: Any, weight: Any, potential: Any = 1.0, synapse_type: Names = "standard"
    ) -> Synapses:
        """Synapses from arrays of numpy or torch; one potential or type is that of all of them."""
        sources = _integers(source, "synapses.source")
        count = len(sources)
        return cls(
            sources,
            _integers(target, "synapses.target"),
            _floats(_spread(weight, count), "synapses.weight"),
            _floats(_spread(potential, count), "synapses.potential"),
            _labels(synapse_type, count),
        )

    def __post_init__(self) -> None:
        _require_equal_lengths(self, "synapses")

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, eq=False)
class Plain:
    """A neuron graph as columns."""

    neurons: Neurons
    synapses: Synapses
    metadata: dict[str, Any] = field(default_factory=dict)
    hidden_states: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require_references(self.synapses.source, "source", len(self.neurons))
        _require_references(self.synapses.target, "target", len(self.neurons))
        if type(self.metadata) is not dict:
            raise GraphFileError("TP0362", "metadata is not a dict")
        object.__setattr__(self, "metadata", checked_tree(self.metadata, "metadata"))
        states = {name: _state(name, value) for name, value in self.hidden_states.items()}
        object.__setattr__(self, "hidden_states", states)

    def equals(self, other: Plain) -> bool:
        """Whether both have the same neurons, synapses, metadata and states; a NaN equals a NaN."""
        return (
            _equal_columns(self.neurons, other.neurons)
            and _equal_columns(self.synapses, other.synapses)
            and repr(self.metadata) == repr(other.metadata)
            and self.hidden_states.keys() == other.hidden_states.keys()
            and all(_equal(state, other.hidden_states[name]) for name, state in self.hidden_states.items())
        )


def in_numpy(value: Any) -> npt.NDArray[Any]:
    """An array of numpy; a tensor of torch comes to the CPU, and a float that numpy lacks is widened."""
    if hasattr(value, "detach"):
        tensor = value.detach().cpu()
        known = str(tensor.dtype) not in ("torch.bfloat16",) and "float8" not in str(tensor.dtype)
        return np.asarray(tensor.numpy() if known else tensor.float().numpy())
    return np.asarray(value)


def _column(value: Any, place: str, kinds: str) -> npt.NDArray[Any]:
    array = in_numpy(value)
    if array.ndim != 1:
        raise GraphFileError("TP0362", f"{place} has {array.ndim} axes, and a column has one")
    if array.size and array.dtype.kind not in kinds:
        raise GraphFileError("TP0362", f"{place} is of dtype {array.dtype}")
    return array


def _floats(value: Any, place: str) -> Floats:
    array = _column(value, place, "iuf")
    if array.dtype.itemsize > 8 or (array.dtype.kind != "f" and array.size and _largest(array) > 2**53):
        raise GraphFileError("TP0362", f"{place} has numbers of {array.dtype} that no float64 holds")
    with np.errstate(invalid="ignore"):  # A signalling NaN becomes a quiet one.
        return array.astype(np.float64, copy=False)


def _largest(array: npt.NDArray[Any]) -> int:
    return max(int(array.max()), -int(array.min()))


def _integers(value: Any, place: str) -> Integers:
    array = _column(value, place, "iu")
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        raise GraphFileError("TP0362", f"{place} has an integer of more than 63 bits")
    return array.astype(np.int64, copy=False)


def _bools(value: Any, place: str) -> Bools:
    return _column(value, place, "b").astype(np.bool_, copy=False)


def _labels(names: Names, count: int) -> Labels:
    if isinstance(names, Labels):
        return names
    return Labels.same(names, count) if isinstance(names, str) else Labels.of(names)


def _spread(value: Any, count: int) -> Any:
    """One value for all rows, without the memory of a column."""
    return np.broadcast_to(np.asarray(value), count) if isinstance(value, bool | int | float) else value


def _state(name: object, value: Any) -> npt.NDArray[Any]:
    require_text(name, "the name of a hidden state")
    array = in_numpy(value)
    if array.dtype.kind not in STATE_KINDS or array.dtype.itemsize > 8 or array.dtype == np.uint64:
        raise GraphFileError("TP0362", f"hidden state {name} is of dtype {array.dtype}")
    if array.ndim > MOST_DIMENSIONS:
        raise GraphFileError("TP0362", f"hidden state {name} has {array.ndim} axes")
    return array


def _require_equal_lengths(columns: Neurons | Synapses, place: str) -> None:
    lengths = {column.name: len(getattr(columns, column.name)) for column in fields(columns)}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise GraphFileError("TP0362", f"the columns of {place} are of different lengths: {told}")


def _require_references(ids: Integers, name: str, neurons: int) -> None:
    wrong = np.flatnonzero((ids < 0) | (ids >= neurons))
    if wrong.size:
        row = int(wrong[0])
        raise GraphFileError(
            "TP0362",
            f"the {name} of a synapse is neuron {ids[row]}, and there are {neurons}",
            where=f"synapses[{row}]",
        )


def _equal_columns(one: Neurons | Synapses, other: Neurons | Synapses) -> bool:
    return all(_equal(getattr(one, column.name), getattr(other, column.name)) for column in fields(one))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Labels):
        return one.equals(other)
    return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
