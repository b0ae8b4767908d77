"""A graph of neurons and synapses that were spelled out becomes a `Core` that runs.

In: a `Plain`. Out: a `Core`. Every neuron adds its bias and what arrives, each value times its weight; if it has an
activation, that follows. Neurons are put into groups: those of one level, by the longest path to them, with the same
activation and the same layer. What cannot be computed like this is refused with the neuron and its type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from torchport.errors import GraphFileError, TorchportError
from torchport.targets.marble.composer import Composer, Value
from torchport.targets.marble.core import layers
from torchport.targets.marble.core.adding import added_synapses, alone, appended, handle
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.core.version import Version
from torchport.targets.marble.exchange.extras import KEPT_STATES
from torchport.targets.marble.exchange.layout import BIAS, without_bias_neurons
from torchport.targets.marble.exchange.plain import Integers, Plain
from torchport.targets.marble.files.borders import Borders, Ending, borders_of
from torchport.targets.marble.files.computable import must_be_computable
from torchport.targets.marble.files.functions import function_of
from torchport.targets.marble.files.levels import levels_of
from torchport.targets.marble.groups import Form, Kind, NeuronGraph, Port

MOST_GROUPS = 1_000
"""Each is a call of torch in a run, and each level has at least one."""


def core_of(plain: Plain) -> Core:
    """The graph as one that runs. GraphFileError if it cannot be computed by weighted sums and activations."""
    if BIAS in plain.neurons.neuron_type.names:
        plain = without_bias_neurons(plain)
    must_be_computable(plain)
    borders = borders_of(plain)
    made = _Building(plain, borders)
    try:
        core = made.built()
    except GraphFileError:
        raise
    except TorchportError as error:
        raise GraphFileError("TP0368", error.message, where=error.where, fix=error.fix) from error
    core.notes += _notes(plain)
    return core


def _notes(plain: Plain) -> list[str]:
    notes = []
    if np.any(plain.synapses.potential != 1.0):
        notes.append("potentials of synapses were passed over: a message is a value times a weight")
    if plain.hidden_states or plain.metadata.get(KEPT_STATES):
        notes.append("hidden states were passed over: no neuron of the graph is a memory")
    return notes


@dataclass(frozen=True)
class _Part:
    """Neurons that become one group, by their rows, and the port that gives their values."""

    rows: Integers
    port: Port
    form: Form


class _Building:
    """The graph so far. `takes` and `gives` have the ids of the neurons that a row's synapses go to and come from."""

    def __init__(self, plain: Plain, borders: Borders) -> None:
        self.plain, self.borders = plain, borders
        self.version = Version(NeuronGraph(borders.name, (), (), ()), {}, 0)
        self.takes = np.full(len(plain.neurons), -1)
        self.gives = np.full(len(plain.neurons), -1)
        self.parts: dict[int, _Part] = {}
        """By their first row."""
        self.is_direct = np.zeros(len(plain.neurons), bool)
        """Rows of functions that read another group as a whole, without synapses of their own."""
        self.only_source = _only_sources(plain)

    def built(self) -> Core:
        self._add_inputs()
        self._add_constants()
        self._add_levels()
        self._add_synapses()
        self._add_outputs()
        return Core(self.version.graph, self.version.arrays)

    def _add_inputs(self) -> None:
        for begin in self.borders.inputs:
            self.version, made = layers.add_input(self.version, begin.name, begin.shape, self.borders.dtype)
            form = self.version.groups[made.name].results[0]
            self._placed(begin.rows, made.takes, made.gives, Port(made.name), form)

    def _add_constants(self) -> None:
        rows = np.flatnonzero(self.plain.neurons.neuron_type.rows_of(Kind.CONSTANT.value))
        if len(rows):
            composer = self._composer("constants", rows)
            array = composer.array("value", self._tensor(self.plain.neurons.value[rows]))
            self._append(rows, composer, composer.constant(array))

    def _add_levels(self) -> None:
        is_given = self.gives >= 0
        numbers = count(1)
        for level in levels_of(self.plain, is_given):
            for rows in self._alike(level):
                composer = self._composer(f"level{next(numbers)}", rows)
                self._append(rows, composer, self._computed(composer, rows))

    def _alike(self, rows: Integers) -> list[Integers]:
        """The rows of a level, split by activation and by layer."""
        neurons = self.plain.neurons
        keys = np.stack(
            [neurons.activation.codes[rows], neurons.neuron_type.codes[rows], neurons.group.codes[rows]]
        )
        _, first, which = np.unique(keys, axis=1, return_index=True, return_inverse=True)
        ordered = np.argsort(first)
        return [rows[which.reshape(-1) == one] for one in ordered]

    def _computed(self, composer: Composer, rows: Integers) -> Value:
        row = int(rows[0])
        function = function_of(self.plain.neurons, row, self.plain.metadata)
        source = self._source_of_all(rows) if function is not None else None
        if source is not None and function is not None:
            self.is_direct[rows] = True
            return function.of(composer, Value(source.port, source.form), row)
        bias = self.plain.neurons.bias[rows]
        biases = self._tensor(bias) if np.any(bias != 0) else None
        sums = alone(composer, Form((len(rows),), self.borders.dtype), biases)
        return sums if function is None else function.of(composer, sums, row)

    def _source_of_all(self, rows: Integers) -> _Part | None:
        """The neurons whose values arrive, if each row has the one at its place, with a weight of 1 and no bias."""
        if np.any(self.plain.neurons.bias[rows] != 0):
            return None
        part = self.parts.get(int(self.only_source[rows[0]]))
        return part if part is not None and np.array_equal(part.rows, self.only_source[rows]) else None

    def _add_synapses(self) -> None:
        synapses = self.plain.synapses
        chosen = ~self.is_direct[synapses.target]
        self.version = added_synapses(
            self.version,
            torch.from_numpy(self.gives[synapses.source[chosen]]),
            torch.from_numpy(self.takes[synapses.target[chosen]]),
            self._tensor(synapses.weight[chosen]),
        )

    def _add_outputs(self) -> None:
        ports = [self._output(number, end) for number, end in enumerate(self.borders.outputs)]
        self.version = replace(self.version, graph=replace(self.version.graph, outputs=tuple(ports)))

    def _output(self, number: int, end: Ending) -> Port:
        part = self.parts.get(int(end.rows[0])) if len(end.rows) else None
        if part is None or not np.array_equal(part.rows, end.rows):
            part = self._gathered(number, end)
        if part.form.shape == end.shape:
            return part.port
        composer = Composer(f"output{number}.shaped", "", {}, self.version.next_id)
        shaped = composer.reshaped(Value(part.port, part.form), end.shape)
        self.version = appended(self.version, composer, shaped)
        return Port(f"output{number}.shaped!")

    def _gathered(self, number: int, end: Ending) -> _Part:
        """Neurons that give the values of others, which are of several groups or in another order."""
        composer = Composer(f"output{number}", "", {}, self.version.next_id)
        value = alone(composer, Form((len(end.rows),), self.borders.dtype), None)
        self.version = appended(self.version, composer, value)
        ids = torch.tensor(list(handle(composer).takes))
        sources = torch.from_numpy(self.gives[end.rows])
        self.version = added_synapses(self.version, sources, ids, torch.ones(len(ids), dtype=self._dtype))
        return _Part(end.rows, Port(f"output{number}!"), value.form)

    # Groups

    def _composer(self, name: str, rows: Integers) -> Composer:
        return Composer(name, self.plain.neurons.group[int(rows[0])], {}, self.version.next_id)

    def _append(self, rows: Integers, composer: Composer, result: Value) -> None:
        if len(self.parts) >= MOST_GROUPS:
            raise GraphFileError(
                "TP0366", f"the graph has more than {MOST_GROUPS:,} levels or kinds of neurons"
            )
        self.version = appended(self.version, composer, result)
        made = handle(composer)
        self._placed(rows, made.takes, made.gives, Port(f"{composer.prefix}!"), result.form)

    def _placed(self, rows: Integers, takes: range, gives: range, port: Port, form: Form) -> None:
        self.takes[rows] = np.arange(takes.start, takes.stop)
        self.gives[rows] = np.arange(gives.start, gives.stop)
        self.parts[int(rows[0])] = _Part(rows, port, form)

    @property
    def _dtype(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self.borders.dtype)
        return dtype

    def _tensor(self, numbers: npt.NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(numbers)).to(self._dtype)


def _only_sources(plain: Plain) -> Integers:
    """For each neuron the one that it receives from, if that is all and has a weight of 1; else -1."""
    synapses, neurons = plain.synapses, len(plain.neurons)
    arriving = np.bincount(synapses.target, minlength=neurons)
    is_only = (arriving[synapses.target] == 1) & (synapses.weight == 1.0)
    found = np.full(neurons, -1)
    found[synapses.target[is_only]] = synapses.source[is_only]
    return found
