"""The order that MARBLE's way back to PyTorch expects: inputs first; for each layer its outputs, then a bias neuron.

MARBLE's neurons have no bias. A bias neuron has the value 1, the type `bias` and a synapse to every output of its
layer. Synapses are sorted by layer; within it the weights row by row of the outputs, and those of the bias neuron last.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from torchport.errors import GraphFileError
from torchport.targets.marble.exchange.labels import Labels
from torchport.targets.marble.exchange.plain import Integers, Neurons, Plain, Synapses

BIAS = "bias"


def with_bias_neurons(plain: Plain) -> Plain:
    """The same graph with bias neurons in place of biases, in MARBLE's order. A bias of 0 is as none.

    A layer is a run of neurons of the same group. Ids grow by the number of bias neurons that come before.
    """
    runs = _runs(plain.neurons.group)
    biased = [run for run in runs if np.any(plain.neurons.bias[run.start : run.stop] != 0)]
    places = np.array([run.stop for run in biased], np.int64)
    new_ids = np.arange(len(plain.neurons)) + np.searchsorted(
        places, np.arange(len(plain.neurons)), side="right"
    )
    bias_ids = places + np.arange(len(biased))
    neurons = _with_rows(plain.neurons, places)
    synapses = _with_bias_synapses(plain, runs, biased, new_ids, bias_ids)
    return Plain(neurons, synapses, plain.metadata, plain.hidden_states)


def without_bias_neurons(plain: Plain) -> Plain:
    """The same graph with biases in place of bias neurons: what `with_bias_neurons` made is undone."""
    is_bias = plain.neurons.neuron_type.rows_of(BIAS)
    from_bias = is_bias[plain.synapses.source] if len(plain.synapses) else np.zeros(0, bool)
    _require_removable(plain, is_bias, from_bias)
    bias = np.array(plain.neurons.bias)
    bias[plain.synapses.target[from_bias]] = plain.synapses.weight[from_bias]
    kept, new_ids = np.flatnonzero(~is_bias), np.cumsum(~is_bias) - 1
    rows = np.flatnonzero(~from_bias)
    synapses = plain.synapses
    return Plain(
        _rows(plain.neurons, kept, bias=bias[kept]),
        Synapses(
            new_ids[synapses.source[rows]],
            new_ids[synapses.target[rows]],
            synapses.weight[rows],
            synapses.potential[rows],
            synapses.synapse_type.taken(rows),
        ),
        plain.metadata,
        plain.hidden_states,
    )


def _runs(group: Labels) -> list[range]:
    """The neurons of each layer: neighbours of the same group."""
    changes = np.flatnonzero(np.diff(group.codes)) + 1
    borders = [0, *changes.tolist(), len(group)]
    return [range(first, last) for first, last in pairwise(borders) if last > first]


def _rows(neurons: Neurons, rows: Integers, **changed: Any) -> Neurons:
    columns: dict[str, Any] = {
        "value": neurons.value[rows],
        "neuron_type": neurons.neuron_type.taken(rows),
        "activation": neurons.activation.taken(rows),
        "activation_flag": neurons.activation_flag[rows],
        "bias": neurons.bias[rows],
        "group": neurons.group.taken(rows),
        "tier": neurons.tier.taken(rows),
        "formula": neurons.formula.taken(rows),
    }
    return Neurons(**{**columns, **changed})


def _with_rows(neurons: Neurons, places: Integers) -> Neurons:
    """The neurons with a bias neuron before each of these places, of the group and tier of the neuron before it."""
    rows = np.insert(np.arange(len(neurons)), places, places - 1)
    is_new = np.insert(np.zeros(len(neurons), bool), places, True)
    return _rows(
        neurons,
        rows,
        value=np.where(is_new, 1.0, neurons.value[rows]),
        bias=np.zeros(len(rows)),
        activation_flag=np.where(is_new, False, neurons.activation_flag[rows]),
        neuron_type=_renamed(neurons.neuron_type.taken(rows), is_new, BIAS),
        activation=_renamed(neurons.activation.taken(rows), is_new, ""),
        formula=_renamed(neurons.formula.taken(rows), is_new, ""),
    )


def _renamed(labels: Labels, rows: Any, name: str) -> Labels:
    names = labels.names if name in labels.names else (*labels.names, name)
    return Labels(names, np.where(rows, np.int32(names.index(name)), labels.codes))


def _with_bias_synapses(
    plain: Plain, runs: list[range], biased: list[range], new_ids: Integers, bias_ids: Integers
) -> Synapses:
    synapses = plain.synapses
    sources = [new_ids[synapses.source]]
    targets = [new_ids[synapses.target]]
    weights, layers = [synapses.weight], [_layer_of(runs, synapses.target)]
    for run, bias_id in zip(biased, bias_ids):
        sources.append(np.full(len(run), bias_id))
        targets.append(new_ids[run.start : run.stop])
        weights.append(plain.neurons.bias[run.start : run.stop])
        layers.append(np.full(len(run), runs.index(run)))
    source, target, layer = np.concatenate(sources), np.concatenate(targets), np.concatenate(layers)
    added = len(source) - len(synapses)
    is_from_bias = np.arange(len(source)) >= len(synapses)
    order = np.lexsort((source, target, is_from_bias, layer))
    codes = np.concatenate([synapses.synapse_type.codes, np.zeros(added, np.int32)])
    types = _renamed(Labels(synapses.synapse_type.names or ("standard",), codes), is_from_bias, "standard")
    return Synapses(
        source[order],
        target[order],
        np.concatenate(weights)[order],
        np.append(synapses.potential, np.ones(added))[order],
        types.taken(order),
    )


def _layer_of(runs: list[range], ids: Integers) -> Integers:
    return np.searchsorted(np.array([run.stop for run in runs], np.int64), ids, side="right").astype(np.int64)


def _require_removable(plain: Plain, is_bias: Any, from_bias: Any) -> None:
    synapses = plain.synapses
    reached = np.unique(synapses.target[is_bias[synapses.target]]) if len(synapses) else np.zeros(0, np.int64)
    wrong = {
        "is reached by a synapse": reached,
        "has another value than 1": np.flatnonzero(is_bias & (plain.neurons.value != 1.0)),
    }
    for reason, ids in wrong.items():
        if ids.size:
            raise GraphFileError("TP0362", f"the bias neuron {reason}", where=f"neurons[{ids[0]}]")
    unusual = from_bias & ((synapses.potential != 1.0) | ~synapses.synapse_type.rows_of("standard"))
    if np.any(unusual):
        row = int(np.flatnonzero(unusual)[0])
        raise GraphFileError(
            "TP0362", "the synapse of a bias neuron is of its own kind", where=f"synapses[{row}]"
        )
    targets = synapses.target[from_bias]
    several, counts = np.unique(targets, return_counts=True)
    twice = np.concatenate([several[counts > 1], targets[plain.neurons.bias[targets] != 0]])
    if twice.size:
        raise GraphFileError("TP0362", "the neuron has more than one bias", where=f"neurons[{twice[0]}]")
