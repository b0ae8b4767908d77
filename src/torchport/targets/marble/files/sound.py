"""Whether a graph from a file is sound: every reference leads somewhere, and every shape is what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from torchport.capture import operations
from torchport.capture.control_flow import CONTROL_FLOW
from torchport.capture.graph import Device, dtype_name, map_args
from torchport.errors import ConvertError, GraphFileError
from torchport.targets.marble import sparse, works
from torchport.targets.marble.core.version import Version
from torchport.targets.marble.fans import fan, request
from torchport.targets.marble.files.typed import must_be_typed
from torchport.targets.marble.groups import (
    ALONE,
    Array,
    Assembly,
    Border,
    Flow,
    Form,
    Group,
    Kind,
    Memory,
    NeuronGraph,
    Port,
    ports_of,
)
from torchport.targets.marble.recipes import RECIPES

FEW = 1_000_000
"""Values of a group up to which its synapses are looked at."""
EMPTY_BUT_FOR_THE_FIRST = ("aten._native_batch_norm_legit_no_training.default",)
"""Operations whose other results are empty, which torch does not know if it works without numbers."""
MOST_PARTS = 300_000
"""The longest axis of a value that is taken apart."""


def must_be_sound(version: Version, names: Mapping[str, str], state: Mapping[str, Tensor]) -> None:
    """Raises a GraphFileError that names the first thing that is wrong."""
    must_be_typed(version.graph)
    _ids_are_apart(version)
    for name, array in names.items():
        _claim(array in version.arrays, f"the parameter {name} has no array")
    forms = _graph(version, version.graph)
    for memory in version.graph.memories():
        _claim(
            _form(memory.source, forms) == memory.group.results[0],
            f"the memory {memory.name} has another form",
        )
    known = {memory.name for memory in version.graph.memories()}
    _claim(set(state) <= known, "there is state for a memory that is not there")
    for memory in version.graph.memories():
        fits = memory.name not in state or _form_of(state[memory.name]) == memory.group.results[0]
        _claim(fits, f"the state of {memory.name} has another form")


def _graph(version: Version, graph: NeuronGraph) -> dict[str, list[Form]]:
    """The forms of all that can be read in a graph."""
    forms: dict[str, list[Form]] = {group.name: list(group.results) for group in graph.inputs}
    for step in graph.steps:
        _claim(step.name not in forms, f"there are two steps {step.name}")
        if isinstance(step, Border):
            forms[step.name] = [_form(step.value, forms)]
        elif isinstance(step, Memory):
            _claim(
                _form(step.initial, forms) == step.group.results[0],
                f"the memory {step.name} has another form",
            )
            forms[step.name] = list(step.group.results)
        elif isinstance(step, Flow):
            forms[step.name] = _flow(version, step, forms)
        else:
            forms[step.name] = _assembly(version, step, forms)
    for port in graph.outputs:
        _form(port, forms)
    return forms


def _flow(version: Version, step: Flow, forms: Mapping[str, list[Form]]) -> list[Form]:
    kind = CONTROL_FLOW.get(step.operation)
    _claim(kind is not None and step.joint.work == kind.name, f"{step.operation} is no control flow")
    for port in step.joint.inputs:
        _form(port, forms)
    _claim(set(ports_of(step.args)) <= set(step.joint.inputs), f"{step.name} reads what does not arrive")
    assert kind is not None
    _claim(all(map(_is_operand, step.args)), f"{step.name} takes something that is no value")
    _claim(set(step.bodies) == set(kind.roles), f"{step.name} has other bodies than {step.operation}")
    counts = [len(operand) if isinstance(operand, list | tuple) else 1 for operand in step.args]
    signatures = kind.signatures(counts, len(step.joint.results))
    for role, body in step.bodies.items():
        _claim(not list(body.memories()), f"a body of {step.name} has a memory")
        _graph(version, body)
        fits = (len(body.inputs), len(body.outputs)) == signatures[role]
        _claim(fits, f"the body {role} of {step.name} takes or gives another number of values")
    return list(step.joint.results)


def _is_operand(arg: Any) -> bool:
    if isinstance(arg, list | tuple):
        return all(map(_is_operand, arg))
    return isinstance(arg, Port | Array)


def _claim(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise GraphFileError("TP0362", otherwise)


def _ids_are_apart(version: Version) -> None:
    end = 0
    names: set[str] = set()
    for group in sorted(version.graph.groups(), key=lambda group: group.first):
        _claim(group.name not in names, f"there are two groups {group.name}")
        names.add(group.name)
        _claim(group.first >= end or not len(group.ids), f"ids of {group.name} are those of another group")
        end = max(end, group.ids.stop) if len(group.ids) else end
        _claim(
            all(0 <= one < len(group.ids) for one in group.removed), f"{group.name} has not what was removed"
        )
    _claim(end <= version.next_id < 2**62, "ids would be given a second time")
    steps = {step.name for step in version.graph.steps}
    _claim(not steps & {name for name in names if name in version.step_of and version.step_of[name].name != name},
           "a group has the name of a step")  # fmt: skip


def _form(port: Port, forms: Mapping[str, list[Form]]) -> Form:
    _claim(port.group in forms and 0 <= port.index < len(forms[port.group]), f"nothing gives {port.group}")
    return forms[port.group][port.index]


def _assembly(version: Version, step: Assembly, forms: Mapping[str, list[Form]]) -> list[Form]:
    _claim(
        step.operation is None or step.operation in RECIPES, f"{step.operation} is no operation of the table"
    )
    inside: dict[str, list[Form]] = {}
    for group in step.groups:
        given = [_form(port, inside if port.group in inside else forms) for port in group.inputs]
        _group(version, group, given)
        inside[group.name] = list(group.results)
    found = [_form(port, inside if port.group in inside else forms) for port in step.outputs]
    if step.operation is not None:
        made = _at_once(version, step, forms)
        compared = 1 if step.operation in EMPTY_BUT_FOR_THE_FIRST else len(made)
        is_same = len(made) == len(found) and made[:compared] == found[:compared]
        _claim(is_same, f"{step.operation} does other work")
    return found


def _at_once(version: Version, step: Assembly, forms: Mapping[str, list[Form]]) -> list[Form]:
    """What the operation of an assembly gives, found without numbers."""
    sizes = {free.name: free.example for free in version.graph.free}

    def known(leaf: Any) -> Any:
        if isinstance(leaf, Port):
            return _empty(_form(leaf, forms))
        if isinstance(leaf, Array):
            _claim(leaf.name in version.arrays, f"{step.name} has no array {leaf.name}")
            return torch.empty_like(version.arrays[leaf.name], device="meta")
        return works.settled(_without_device(leaf), sizes)

    assert step.operation is not None
    _gives_few(step.operation, [_form(port, forms) for port in ports_of([step.args, step.kwargs])])
    args, kwargs = (map_args(given, known) for given in (step.args, step.kwargs))
    with torch.device("meta"):
        found = operations.overload(step.operation)(*args, **kwargs)
    return [_form_of(one) for one in (found if isinstance(found, list | tuple) else [found])]


def _empty(form: Form) -> Tensor:
    return torch.empty(form.shape, dtype=getattr(torch, form.dtype), device="meta")


def _form_of(value: Tensor) -> Form:
    return Form(tuple(value.shape), dtype_name(value.dtype))


def _group(version: Version, group: Group, given: list[Form]) -> None:
    """Does the work without numbers, and compares what comes out with what the group says of itself."""
    for name in group.weights.values():
        _claim(name in version.arrays, f"the group {group.name} has no array {name}")
    known = (
        group.work in works.WORKS[group.kind] or group.work in RECIPES or group.work.startswith("activation:")
    )
    _claim(known and group.kind not in (Kind.INPUT, Kind.MEMORY), f"{group.work} is no work of the table")
    _claim(
        tuple(form.size for form in given[len(given) - len(group.added) :]) == group.added,
        f"{group.name} adds wrongly",
    )
    arrays = version.arrays_of(group)
    if sparse.ROW in arrays:
        _rows(group, arrays)
    sizes = {free.name: free.example for free in version.graph.free}
    empty = {name: torch.empty_like(version.arrays[name], device="meta") for name in group.weights.values()}
    bare = {p: n for p, n in group.weights.items() if p not in sparse.PURPOSES}
    options = map_args(group.options, _without_device)
    plain = Group(
        **{**vars(group), "inputs": group.own_inputs, "added": (), "weights": bare, "options": options}
    )
    _gives_few(group.work, given)
    values = [_empty(form) for form in given]
    with torch.device("meta"):
        found = works.compute(plain, values[: len(group.own_inputs)], empty, sizes)
    made = [_form_of(one) for one in found]
    _claim(made == list(group.results), f"the group {group.name} does not give what it says")
    _synapses(version, group, given[: len(group.own_inputs)])


def _synapses(version: Version, group: Group, given: list[Form]) -> None:
    """Asks for the synapses of one neuron of each result, if there are not too many to look at."""
    is_small = sum(form.size for form in (*given, *group.results)) <= FEW
    if group.work == ALONE or not group.kind.has_neurons or not is_small:
        return
    sizes = {free.name: free.example for free in version.graph.free}
    ask = request(sparse.own_part(group), given, group.results, version.arrays, sizes)
    for index, form in enumerate(group.results):
        try:
            fan(ask, range(min(1, form.size)), index)
        except ConvertError:  # a work whose synapses are not known can still be done
            return


def _gives_few(operation: str, given: list[Form]) -> None:
    """An operation that takes a value apart is not done at all if there could be too many parts."""
    if operation in RECIPES and any(
        "List" in str(one.type) for one in operations.overload(operation)._schema.returns
    ):
        largest = max((size for form in given for size in form.shape), default=0)
        _claim(largest <= MOST_PARTS, f"{operation} would give up to {largest:,} parts")


def _without_device(leaf: Any) -> Any:
    """Nothing is placed on a device while a graph is looked at."""
    return Device("meta") if isinstance(leaf, Device) else leaf


def _rows(group: Group, arrays: Mapping[str, Tensor]) -> None:
    row, source, weight = arrays[sparse.ROW], arrays[sparse.SOURCE], arrays[sparse.WEIGHT]
    _claim(row.ndim == source.ndim == weight.ndim == 1, f"the synapses of {group.name} are no rows")
    _claim(
        row.dtype == source.dtype and row.dtype in (torch.int32, torch.int64),
        f"{group.name} has wrong rows",
    )
    _claim(
        len(row) == group.results[0].size + 1 and len(source) == len(weight), f"{group.name} has too few rows"
    )
    _claim(
        int(row[0]) == 0 and int(row[-1]) == len(source) and bool((row.diff() >= 0).all()),
        f"{group.name} has wrong rows",
    )
    number = arrays.get(sparse.NUMBER)
    numbered = number is None or (number.shape == source.shape and number.dtype in (torch.int32, torch.int64))
    _claim(numbered, f"the synapses of {group.name} have wrong numbers")
    following = arrays.get(sparse.NEXT)
    promised = following is None or (following.shape == (len(row) - 1,) and following.dtype == torch.int32)
    _claim(promised, f"the synapses of {group.name} have wrong numbers")
    inside = not len(source) or (int(source.min()) >= 0 and int(source.max()) < sum(group.added))
    _claim(inside, f"a synapse of {group.name} comes from nowhere")
    _claim(
        weight.dtype == getattr(torch, group.results[0].dtype),
        f"the weights of {group.name} have another dtype",
    )
