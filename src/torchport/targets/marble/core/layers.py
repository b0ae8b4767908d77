"""Inputs, layers and outputs of a graph that is built by hand, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torchport.errors import NeuronError
from torchport.targets.marble.composer import Composer, Value, Weight
from torchport.targets.marble.core.adding import NeuronGroup, activated, appended, handle, must_be_new
from torchport.targets.marble.core.version import Version, readable_port
from torchport.targets.marble.groups import Form, Group, Kind


def add_input(version: Version, name: str, shape: Sequence[int], dtype: str) -> tuple[Version, NeuronGroup]:
    """Neurons whose values are given in each run."""
    must_be_new(version, name)
    if not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise NeuronError("TP0904", f"torch has no dtype {dtype!r}")
    if not all(isinstance(size, int) and size > 0 for size in shape):
        raise NeuronError("TP0904", f"{list(shape)} is no shape of neurons")
    group = Group(name, Kind.INPUT, "given", (), (Form(tuple(shape), dtype),), version.next_id)
    graph = replace(version.graph, inputs=(*version.graph.inputs, group))
    return replace(version, graph=graph, next_id=group.ids.stop), NeuronGroup(name, group.ids, group.ids)


def linear_layer(
    version: Version, name: str, source: range, weight: Any, bias: Any, activation: str | None
) -> tuple[Version, NeuronGroup]:
    """Neurons that each add all values of a group, times a row of the weight."""
    version, composer, value = _begun(version, name, source)
    matrix = _array(weight, value, "weight", 2)
    if matrix.shape[1] != value.form.size:
        raise NeuronError(
            "TP0904",
            f"a weight of shape {list(matrix.shape)} takes {matrix.shape[1]} values; "
            f"the source gives {value.form.size}",
        )
    if value.rank != 1:
        value = composer.reshaped(value, [value.form.size])
    made = composer.dense(
        value, composer.array("weight", matrix), _biases(composer, bias, value, len(matrix))
    )
    return appended(version, composer, activated(composer, made, activation)), handle(composer)


def conv2d_layer(
    version: Version,
    name: str,
    source: range,
    weight: Any,
    bias: Any,
    activation: str | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> tuple[Version, NeuronGroup]:
    """Neurons that each add the values of a window, times weights that those of a channel share."""
    version, composer, value = _begun(version, name, source)
    kernel = _array(weight, value, "weight", 4)
    shape = value.shape if value.rank == 4 else (1, *value.shape)
    if len(shape) != 4 or groups < 1 or shape[1] != kernel.shape[1] * groups or len(kernel) % groups:
        raise NeuronError(
            "TP0904",
            f"a weight of shape {list(kernel.shape)} in {groups} groups does not fit values of shape "
            f"{list(value.shape)}",
            fix="The source is of shape [channels, height, width], and the weight [out, channels / groups, h, w].",
        )
    if value.rank == 3:
        value = composer.reshaped(value, shape)
    options = {
        "stride": _two(stride),
        "padding": _two(padding),
        "dilation": _two(dilation),
        "transposed": False,
        "output_padding": [0, 0],
        "groups": groups,
    }
    biases = _biases(composer, bias, value, len(kernel))
    try:
        made = composer.convolution(value, composer.array("weight", kernel), biases, options)
    except RuntimeError as error:
        raise NeuronError(
            "TP0904", f"torch refuses this convolution: {str(error).splitlines()[0]}"
        ) from error
    return appended(version, composer, activated(composer, made, activation)), handle(composer)


def set_outputs(version: Version, outputs: Sequence[range]) -> tuple[Version, None]:
    """The graph gives the values of these groups."""
    ports = []
    for ids in outputs:
        place = version.place(ids.start)
        version, port = readable_port(version, place.group, place.result)
        ports.append(port)
    return replace(version, graph=replace(version.graph, outputs=tuple(ports))), None


def _begun(version: Version, name: str, source: range) -> tuple[Version, Composer, Value]:
    """A composer for a new layer, and the value of the group that it takes."""
    must_be_new(version, name)
    place = version.place(source.start)
    form = place.group.results[place.result]
    if len(source) != form.size:
        raise NeuronError(
            "TP0904", f"a layer takes all {form.size} values of {place.group.name}, not {len(source)}"
        )
    version, port = readable_port(version, place.group, place.result)
    return version, Composer(name, name, {}, version.next_id), Value(port, form)


def _array(given: Any, value: Value, what: str, rank: int) -> Tensor:
    array = torch.as_tensor(given, dtype=getattr(torch, value.dtype)).detach().clone()
    if array.ndim != rank:
        raise NeuronError("TP0904", f"the {what} has {array.ndim} axes; it must have {rank}")
    return array


def _biases(composer: Composer, bias: Any, value: Value, count: int) -> Weight | None:
    if bias is None:
        return None
    array = _array(bias, value, "bias", 1)
    if len(array) != count:
        raise NeuronError(
            "TP0904", f"there must be {count} biases, one for each row of the weight, not {len(array)}"
        )
    return composer.array("bias", array)


def _two(given: Any) -> list[int]:
    sizes = [given, given] if isinstance(given, int) else list(given)
    if len(sizes) != 2 or not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise NeuronError("TP0904", f"{given!r} is not one size, or one for each of two axes")
    return sizes
