"""A neuron graph with every neuron and synapse spelled out, for formats that know nothing of groups and shared weights.

In: a `Core`. Out: a `Plain`. What a plain graph has no column for is in its metadata, so that `imported` can make a
graph of it again:

    model        the name of the graph
    inputs       name, shape, dtype and rows of each input
    outputs      shape, dtype and rows of each output; a row is -1 if a value comes from no neuron
    dtypes       the dtypes of all neurons
    activations  what each name in the column `activation` stands for, with its options
    ids          [row, id, count] of each run of neurons, if ids are not rows
    padding      how many synapses were left out since they come from no neuron, and whether they all bring 0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from torchport.capture import operations
from torchport.capture.arguments import encode
from torchport.errors import NeuronError
from torchport.targets.marble.activations import is_activation
from torchport.targets.marble.arrivals import NOBODY
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.core.version import Version
from torchport.targets.marble.core.views import activation_of, formula, tier_of
from torchport.targets.marble.exchange.labels import Labels
from torchport.targets.marble.exchange.limits import in_words
from torchport.targets.marble.exchange.plain import Integers, Neurons, Plain, Synapses, in_numpy
from torchport.targets.marble.groups import Group, Kind, Port
from torchport.targets.marble.synapses import biases_of, synapses_into

MOST = 1_000_000
BYTES_A_SYNAPSE = 105
BYTES_A_NEURON = 170


def plain_of(core: Core, *, most: int = MOST) -> Plain:
    """The graph as columns. NeuronError if it has more neurons or synapses than `most`, before one is listed."""
    version = core.version
    must_be_few(core, most)
    listed = _Listed(version, core.state)
    synapses, padding = listed.synapses()
    metadata = {
        "model": version.graph.name,
        "inputs": [_input(group, listed) for group in version.graph.inputs],
        "outputs": [_output(port, version, listed) for port in version.graph.outputs],
        "dtypes": sorted({form.dtype for group in listed.groups for form in group.results}),
        "activations": listed.activations,
        **({} if listed.ids_are_rows else {"ids": listed.runs_of_ids()}),
        **({"padding": {"synapses": padding, "is_zero": _pads_with_zero(listed.version)}} if padding else {}),
    }
    states = {name: in_numpy(value) for name, value in core.state.items()}
    return Plain(listed.neurons(), synapses, metadata, states)


def must_be_few(core: Core, most: int) -> None:
    """Counts what would be spelled out, without doing so."""
    neurons, synapses = len(core.neurons), len(core.synapses)
    if max(neurons, synapses) > most:
        size = in_words(neurons * BYTES_A_NEURON + synapses * BYTES_A_SYNAPSE)
        raise NeuronError(
            "TP0907",
            f"the graph has {neurons:,} neurons and {synapses:,} synapses, which would be about {size} as JSON; "
            f"at most {most:,} of each are spelled out",
            fix="Save it as a native .marble file, or raise `most`.",
        )


class _Listed:
    """The rows of a graph's neurons: those that were not removed, in the order of their ids."""

    def __init__(self, version: Version, state: Mapping[str, Tensor]) -> None:
        self.version, self.state = version, state
        self.groups = version.arrivals.with_ids
        self.arrays = {name: array.cpu() for name, array in version.arrays.items()}
        self.kept = [_kept(group) for group in self.groups]
        parts = [group.first + kept for group, kept in zip(self.groups, self.kept, strict=True)]
        self.ids: Integers = np.concatenate([np.zeros(0, np.int64), *parts])
        self.activations: dict[str, dict[str, Any]] = {}
        self._labels = [self._activation(group) for group in self.groups]

    @property
    def ids_are_rows(self) -> bool:
        return not len(self.ids) or int(self.ids[-1]) == len(self.ids) - 1

    def rows(self, ids: Integers) -> Integers:
        """The row of each neuron; -1 for nobody, and for a neuron that was removed."""
        rows = np.searchsorted(self.ids, ids)
        is_there = np.append(self.ids, NOBODY)[rows] == ids
        return np.where(is_there & (ids != NOBODY), rows, -1)

    def runs_of_ids(self) -> list[list[int]]:
        return [[row, int(self.ids[row]), count] for row, count in _runs(self.ids)]

    def neurons(self) -> Neurons:
        return Neurons.of(
            self._numbers(self._values),
            self._names([group.kind.value for group in self.groups]),
            self._names(self._labels),
            np.repeat(
                [group.kind is Kind.FUNCTION for group in self.groups] or np.zeros(0, bool), self._counts
            ),
            self._numbers(lambda group: biases_of(self.version.arrivals, self.arrays, group)),
            self._names([group.layer or group.name for group in self.groups]),
            self._names([tier_of(self.version, group) for group in self.groups]),
            self._names([formula(group) for group in self.groups]),
        )

    def synapses(self) -> tuple[Synapses, int]:
        """All of them, and how many were left out since they come from nobody."""
        sources, targets, weights = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
        left_out = 0
        for group in self.groups:
            for some in synapses_into(self.version.arrivals, self.arrays, group):
                source = self.rows(some.source.numpy())
                is_there = source >= 0
                left_out += int((~is_there).sum())
                sources.append(source[is_there])
                targets.append(self.rows(some.target.numpy()[is_there]))
                weights.append(in_numpy(some.weight)[is_there])
        columns = [np.concatenate(parts) for parts in (sources, targets, weights)]
        return Synapses.of(columns[0], columns[1], columns[2]), left_out

    @property
    def _counts(self) -> list[int]:
        return [len(kept) for kept in self.kept]

    def _names(self, name_of_each_group: list[str]) -> Labels:
        names = tuple(dict.fromkeys(name_of_each_group))
        codes = np.array([names.index(name) for name in name_of_each_group], np.int32)
        return Labels(names, np.repeat(codes, self._counts))

    def _numbers(self, of_group: Callable[[Group], Tensor | None]) -> npt.NDArray[np.float64]:
        parts = [np.zeros(0)]
        for group, kept in zip(self.groups, self.kept, strict=True):
            found = of_group(group)
            parts.append(np.zeros(len(kept)) if found is None else in_numpy(found).astype(np.float64)[kept])
        return np.concatenate(parts)

    def _values(self, group: Group) -> Tensor | None:
        """What is known of the values of neurons without a run."""
        if group.kind is Kind.CONSTANT and "value" in group.weights:
            return self.arrays[group.weights["value"]].reshape(-1)
        return self.state[group.name].reshape(-1) if group.name in self.state else None

    def _activation(self, group: Group) -> str:
        """A name that stands for the function and its options, which are noted under it."""
        name = activation_of(group)
        if name is None:
            return ""
        described = _function(group)
        changed = [f"{key}={value}" for key, value in described["options"].items()]
        label = f"{name}({', '.join(changed)})" if changed else name
        if self.activations.setdefault(label, described) != described:
            label = f"{label} by {group.work}"
            self.activations[label] = described
        return label


def _pads_with_zero(version: Version) -> bool:
    wiring = [group for group in version.groups.values() if group.kind is Kind.WIRING]
    return all(group.options.get("value") in (None, 0) for group in wiring)


def _kept(group: Group) -> Integers:
    return np.setdiff1d(np.arange(len(group.ids)), np.array(sorted(group.removed), np.int64))


def _function(group: Group) -> dict[str, Any]:
    """The work of a group of functions, the argument that arrives, and options that are not torch's defaults."""
    options = {name: value for name, value in group.options.items() if name != "order"}
    if is_activation(group.work):
        return {"work": group.work, "options": {name: encode(value) for name, value in options.items()}}
    ((argument, _),) = group.options.get("order", [("self", None)])
    defaults = {one.name: one.default for one in operations.arguments(group.work) if not one.is_required}
    kept = {
        name: encode(value)
        for name, value in options.items()
        if name not in defaults or not _is_same(value, defaults[name])
    }
    return {"work": group.work, "argument": argument, "options": kept}


def _is_same(value: Any, default: Any) -> bool:
    return isinstance(value, bool) == isinstance(default, bool) and bool(value == default)


def _runs(numbers: Integers) -> list[tuple[int, int]]:
    """The first place and the length of each run of consecutive numbers."""
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 2) != 1)
    return list(zip(starts.tolist(), np.diff(starts, append=len(numbers)).tolist(), strict=True))


def _rows_in_runs(rows: Integers) -> list[list[int]]:
    return [[int(rows[start]), count] for start, count in _runs(rows)]


def _input(group: Group, listed: _Listed) -> dict[str, Any]:
    (form,) = group.results
    rows = listed.rows(np.arange(group.ids.start, group.ids.stop))
    return {"name": group.name, "shape": list(form.shape), "dtype": form.dtype, "rows": _rows_in_runs(rows)}


def _output(port: Port, version: Version, listed: _Listed) -> dict[str, Any]:
    form = version.form(port)
    rows = listed.rows(version.arrivals.ids(port).reshape(-1).numpy())
    return {"shape": list(form.shape), "dtype": form.dtype, "rows": _rows_in_runs(rows)}
