"""Whether every field of a structure from a file is of its type: JSON may have anything anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchport.errors import GraphFileError
from torchport.targets.marble.groups import (
    Assembly,
    Border,
    Flow,
    Form,
    Group,
    Kind,
    Memory,
    NeuronGraph,
    Port,
    Step,
)

DTYPES = frozenset(
    (
        *("float16", "bfloat16", "float32", "float64", "bool", "complex64", "complex128"),
        *("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    )
)
LARGEST = 2**53
"""Ids are exact below it as float64, which wiring carries them in."""


def must_be_typed(graph: NeuronGraph) -> None:
    """Raises a GraphFileError that names the first field of another type."""
    _claim(isinstance(graph.name, str), "the name of the graph is no text")
    for size in graph.free:
        _claim(isinstance(size.name, str), "a free size has no name")
        _claim(_is_size(size.input) and size.input < len(graph.inputs), f"the size {size.name} has no input")
        _claim(_is_size(size.axis) and _is_size(size.example), f"the size {size.name} is none")
    for group in graph.inputs:
        _group(group)
        _given(group, Kind.INPUT)
    for step in graph.steps:
        _step(step)
    for port in graph.outputs:
        _port(port)


def _step(step: Step) -> None:
    for port in _ports(step):
        _port(port)
    if isinstance(step, Memory):
        _group(step.group)
        _given(step.group, Kind.MEMORY)
    if isinstance(step, Border):
        _claim(isinstance(step.key, str), "the key of a border is no text")
    if isinstance(step, Assembly | Flow):
        _claim(isinstance(step.layer, str), f"the layer of {step.name} is no text")
        _claim(step.source is None or isinstance(step.source, str), f"the source of {step.name} is no text")
    if isinstance(step, Flow):
        _group(step.joint)
        _claim(
            step.joint.kind is Kind.SELECTION and not step.joint.weights,
            f"{step.name} is joined by no selection",
        )
        for body in step.bodies.values():
            must_be_typed(body)
    if isinstance(step, Assembly):
        for group in step.groups:
            _group(group)


def _ports(step: Step) -> Iterator[Port]:
    if isinstance(step, Border):
        yield step.value
    elif isinstance(step, Memory):
        yield from (step.initial, step.source)
    elif isinstance(step, Assembly):
        yield from step.outputs


def _given(group: Group, kind: Kind) -> None:
    """Inputs and memories have one value, and do nothing with others."""
    is_bare = not group.inputs and not group.weights and not group.added and len(group.results) == 1
    _claim(group.kind is kind and is_bare, f"{group.name} is no group of the kind {kind}")


def _group(group: Group) -> None:
    _claim(isinstance(group.name, str) and isinstance(group.work, str), "a group has no name or no work")
    _claim(isinstance(group.layer, str), f"the layer of {group.name} is no text")
    for port in group.inputs:
        _port(port)
    for form in group.results:
        _form(form, group.name)
    _claim(_is_size(group.first), f"the first id of {group.name} is none")
    _claim(all(map(_is_size, (*group.added, *group.removed))), f"{group.name} has numbers that are no sizes")
    _claim(isinstance(group.options, dict), f"the options of {group.name} are no object")
    named = isinstance(group.weights, dict) and all(isinstance(name, str) for name in group.weights.values())
    _claim(named, f"the weights of {group.name} are no names")


def _port(port: Port) -> None:
    _claim(isinstance(port.group, str) and _is_size(port.index), "what is read is no name and number")


def _form(form: Form, group: str) -> None:
    _claim(form.dtype in DTYPES, f"{group} gives no dtype of torch")
    _claim(all(map(_is_size, form.shape)) and form.size < LARGEST, f"{group} gives no shape")


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < LARGEST


def _claim(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise GraphFileError("TP0362", otherwise)
