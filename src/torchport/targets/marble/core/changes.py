"""Changes of a graph as data: a name and arguments, which a journal writes down and which can be made again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchport.errors import NeuronError
from torchport.targets.marble.core import adding, growing, layers, pruning, removing
from torchport.targets.marble.core.adding import Ids, NeuronGroup, tensor_of
from torchport.targets.marble.core.version import Version
from torchport.targets.marble.groups import Form


@dataclass(frozen=True)
class Change:
    name: str
    arguments: Mapping[str, Any]


Made = tuple[Version, Any]
"""The new version, and what the caller is told."""


def made(version: Version, change: Change) -> Made:
    """The version after a change. The one before stays as it is."""
    version, answer = CHANGES[change.name](version, **change.arguments)
    return version.pruned_arrays(), answer


def ids_of(given: Ids, *, is_target: bool) -> Tensor:
    if isinstance(given, NeuronGroup):
        given = given.takes if is_target else given.gives
    try:
        ids = torch.as_tensor(list(given) if isinstance(given, range) else given).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise NeuronError("TP0904", "ids of neurons are whole numbers, one or a list of them") from error
    if ids.numel() and (ids.dtype.is_floating_point or ids.dtype == torch.bool or ids.ndim > 1):
        raise NeuronError("TP0904", "ids of neurons are whole numbers, one or a list of them")
    return ids.long().reshape(-1)


def _add_group(
    version: Version, size: int, name: str, activation: str | None, bias: Any, layer: str, dtype: str
) -> Made:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise NeuronError("TP0904", f"a group has at least one neuron, not {size!r}")
    biases = None if bias is None else tensor_of(bias, size)
    kind = getattr(torch, dtype, None) if isinstance(dtype, str) else None
    if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
        raise NeuronError("TP0904", f"neurons add up in floats, such as float32, not in {dtype!r}")
    return adding.added_group(version, name, Form((size,), dtype), biases, activation, layer)


def _add_memory(version: Version, name: str, first: int, count: int) -> Made:
    return adding.added_memory(version, name, range(first, first + count))


def _add_synapses(version: Version, sources: Ids, targets: Ids, weights: Any) -> Made:
    one, other = ids_of(sources, is_target=False), ids_of(targets, is_target=True)
    count = max(len(one), len(other))
    if len(one) not in (1, count) or len(other) not in (1, count):
        raise NeuronError("TP0904", f"{len(one)} sources and {len(other)} targets are no pairs")
    made = adding.added_synapses(version, one.expand(count), other.expand(count), tensor_of(weights, count))
    return made, None


def _connect(version: Version, sources: Ids, targets: Ids, weights: Any) -> Made:
    one, other = ids_of(sources, is_target=False), ids_of(targets, is_target=True)
    given = torch.as_tensor(weights).detach()
    if given.ndim and given.shape != (len(other), len(one)):
        raise NeuronError(
            "TP0904",
            f"{len(other)} targets and {len(one)} sources need weights of shape [{len(other)}, {len(one)}], "
            f"not {list(given.shape)}",
        )
    count = len(one) * len(other)
    flat = tensor_of(given.reshape(-1) if given.ndim else given, count)
    return adding.added_synapses(
        version, one.repeat(len(other)), other.repeat_interleave(len(one)), flat
    ), None


def _remove_neurons(version: Version, neurons: Any, cascade: bool) -> Made:
    return removing.remove_neurons(version, ids_of(neurons, is_target=False).tolist(), bool(cascade))


CHANGES: dict[str, Callable[..., Made]] = {
    "add_input": layers.add_input,
    "linear_layer": layers.linear_layer,
    "conv2d_layer": layers.conv2d_layer,
    "set_outputs": layers.set_outputs,
    "add_group": _add_group,
    "add_memory": _add_memory,
    "add_synapses": _add_synapses,
    "connect": _connect,
    "set_weights": removing.set_weights,
    "remove_synapses": removing.remove_synapses,
    "remove_neurons": _remove_neurons,
    "remove_group": removing.remove_group,
    "split": growing.split,
    "grow": growing.grow,
    "prune": pruning.prune,
}
