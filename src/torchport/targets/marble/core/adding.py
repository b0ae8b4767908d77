"""Adding to a graph: groups, memories and synapses. Each function takes a version and gives another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from torchport.errors import NeuronError
from torchport.targets.marble import sparse
from torchport.targets.marble.composer import Composer, Value
from torchport.targets.marble.core.order import in_order
from torchport.targets.marble.core.unrolled import alone_options, own_width
from torchport.targets.marble.core.version import Version, readable_port
from torchport.targets.marble.groups import ALONE, MADE, Assembly, Form, Group, Kind, Memory, Port


@dataclass(frozen=True)
class NeuronGroup:
    """Neurons that were made by hand: those that take synapses, and those that others take values from."""

    name: str
    takes: range
    gives: range

    def __len__(self) -> int:
        return len(self.gives)


Ids = NeuronGroup | Sequence[int] | Tensor | int


def added_group(
    version: Version, name: str, form: Form, bias: Tensor | None, activation: str | None, layer: str
) -> tuple[Version, NeuronGroup]:
    """Neurons without synapses, which give their bias, or what an activation makes of it."""
    must_be_new(version, name)
    composer = Composer(name, layer, {}, version.next_id)
    sums = alone(composer, form, bias)
    last = activated(composer, sums, activation)
    return appended(version, composer, last), handle(composer)


def alone(composer: Composer, form: Form, bias: Tensor | None) -> Value:
    """Weighted sums that have no synapses yet."""
    dtype = getattr(torch, form.dtype)
    weights = {} if bias is None else {"bias": composer.array("bias", bias.to(dtype).reshape(form.shape))}
    return composer.add(Kind.WEIGHTED_SUM, ALONE, [], alone_options(form), weights)


def activated(composer: Composer, value: Value, activation: str | None) -> Value:
    """What an activation makes of a value, by its name among the plugins."""
    return value if activation is None else composer.add(Kind.FUNCTION, f"activation:{activation}", [value])


def appended(version: Version, composer: Composer, result: Value) -> Version:
    """With the groups of a composer as one more step."""
    name = f"{composer.prefix}!"
    step = Assembly(name, None, (), {}, tuple(composer.groups), (result.port,), composer.layer)
    made = version.with_steps((*version.graph.steps, step), composer.made)
    return replace(made, next_id=composer.first)


def handle(composer: Composer) -> NeuronGroup:
    with_neurons = [group for group in composer.groups if len(group.ids)]
    return NeuronGroup(composer.prefix, with_neurons[0].ids, with_neurons[-1].ids)


def must_be_new(version: Version, name: str) -> None:
    if not name or MADE in name or "!" in name:
        raise NeuronError(
            "TP0904", f"{name!r} cannot be the name of a group", fix="Use letters, digits, _ and dots."
        )
    taken = {step.name for step in version.graph.steps} | set(version.groups)
    if name in taken or f"{name}!" in taken:
        raise NeuronError("TP0904", f"there is already a group {name!r}", fix="Choose another name.")


def added_memory(version: Version, name: str, sources: range) -> tuple[Version, NeuronGroup]:
    """Neurons that give what others, which are all of one group, were at the end of the run before; 0 at first."""
    place = version.place(sources.start)
    form = place.group.results[place.result]
    if sources != range(place.group.first, place.group.first + form.size):
        raise NeuronError(
            "TP0904", "a memory keeps all values of a group", fix="Give the ids of the whole group."
        )
    made, _ = added_group(version, f"{name}.start", form, None, None, "")
    must_be_new(made, name)
    made, source = readable_port(made, place.group, place.result)
    made, initial = readable_port(made, made.groups[f"{name}.start"], 0)
    group = Group(name, Kind.MEMORY, "last", (), (form,), made.next_id)
    steps = (*made.graph.steps, Memory(group, initial, source))
    made = replace(made.with_steps(steps), next_id=made.next_id + form.size)
    return made, NeuronGroup(name, group.ids, group.ids)


def added_synapses(version: Version, sources: Tensor, targets: Tensor, weights: Tensor) -> Version:
    """With synapses from one neuron to another each. Only neurons that add what arrives can take more of it."""
    for name, among in _by_group(version, targets).items():
        version = _added_to(version, name, sources[among], targets[among], weights[among])
    return in_order(version)


def as_weights(weights: Tensor, group: Group) -> Tensor:
    """Weights in the dtype of a group; refused if one is no number there."""
    made = weights.to(float_dtype(group))
    if not bool(torch.isfinite(made).all()):
        raise NeuronError(
            "TP0904", f"a weight is NaN or infinite as {group.results[0].dtype}", fix="Give finite weights."
        )
    return made


def _by_group(version: Version, ids: Tensor) -> dict[str, Tensor]:
    """Which of the ids belong to each group; the groups are in the order in which they are met."""
    if not len(ids):
        return {}
    groups = version.arrivals.with_ids
    first = torch.tensor([group.first for group in groups], dtype=torch.int64)
    stop = torch.tensor([group.ids.stop for group in groups], dtype=torch.int64)
    at = torch.bucketize(ids.contiguous(), first, right=True) - 1
    is_there = (at >= 0) & (ids < stop[at]) if groups else torch.zeros_like(ids, dtype=torch.bool)
    removed = [group.first + one for group in groups for one in group.removed]
    if removed:
        is_there &= ~torch.isin(ids, torch.tensor(removed, dtype=torch.int64))
    if not bool(is_there.all()):
        version.place(int(ids[int(is_there.int().argmin())]))
    order = torch.argsort(at, stable=True)
    portions = torch.split(order, torch.unique_consecutive(at[order], return_counts=True)[1].tolist())
    met = sorted(portions, key=lambda portion: int(portion[0]))
    return {groups[int(at[portion[0]])].name: portion for portion in met}


def _added_to(version: Version, name: str, sources: Tensor, targets: Tensor, weights: Tensor) -> Version:
    group = version.groups[name]
    if group.kind is not Kind.WEIGHTED_SUM:
        raise NeuronError(
            "TP0904",
            f"the neurons of {name} take no more synapses: each is a {group.kind} ({group.work})",
            fix="Add synapses to neurons that are weighted sums.",
        )
    rows, inputs = added_rows(version, group)
    places = torch.empty(len(sources), dtype=torch.int64)
    for source_name, among in _by_group(version, sources).items():
        if source_name == name:
            raise NeuronError(
                "TP0903",
                f"neurons of the group {name} would wait for each other: those of one group are computed together",
                fix="Put them into groups of their own, or send the value through `core.add_memory`.",
            )
        _must_be_as_wide(version.groups[source_name], group)
        version, inputs, start = _with_input(version, group, inputs, source_name)
        places[among] = sources[among] - version.groups[source_name].first + start
    offsets = targets - group.first
    joined = sparse.Rows(
        torch.cat([rows.target, offsets]),
        torch.cat([rows.source, places]),
        torch.cat([rows.weight, as_weights(weights, group)]),
        torch.cat([rows.number, _next_numbers(version, group, rows, offsets)]),
    )
    return with_rows(version, version.groups[name], joined, inputs)


def _must_be_as_wide(source: Group, target: Group) -> None:
    """Refuses values that would lose digits on their way."""
    for form in source.results:
        given, taken = getattr(torch, form.dtype), float_dtype(target)
        if given.is_floating_point and torch.promote_types(given, taken) != taken:
            raise NeuronError(
                "TP0904",
                f"{source.name} gives {form.dtype}, and {target.name} adds up in {target.results[0].dtype}",
                fix=f"Make the group with dtype={form.dtype!r}.",
            )


Inputs = list[tuple[Port, int]]
"""Ports of added inputs, and the size of each."""


def added_rows(version: Version, group: Group) -> tuple[sparse.Rows, Inputs]:
    """The synapses of a group that were added, and the inputs that they come from."""
    arrays = version.arrays_of(group)
    if sparse.ROW not in arrays:
        none = torch.zeros(0, dtype=torch.int64)
        return sparse.Rows(none, none, torch.zeros(0, dtype=float_dtype(group)), none), []
    return sparse.Rows.of(arrays), list(zip(group.added_inputs, group.added, strict=True))


def float_dtype(group: Group) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, group.results[0].dtype)
    if not dtype.is_floating_point:
        raise NeuronError("TP0904", f"the neurons of {group.name} give {group.results[0].dtype}, not floats")
    return dtype


def _with_input(version: Version, group: Group, inputs: Inputs, source: str) -> tuple[Version, Inputs, int]:
    """Where the ids of a group begin among the inputs, which get it if they do not have it."""
    giving = version.groups[source]
    ports: list[Port] = []
    is_inside = version.step_of.get(source) is version.step_of[group.name]
    for result in range(len(giving.results)):
        if is_inside:
            ports.append(Port(source, result))
        else:
            version, port = readable_port(version, giving, result)
            ports.append(port)
    known = [port for port, _ in inputs]
    at = next((i for i in range(len(known)) if known[i : i + len(ports)] == ports), len(known))
    if at == len(known):
        inputs = [*inputs, *((port, form.size) for port, form in zip(ports, giving.results, strict=True))]
    return version, inputs, sum(size for _, size in inputs[:at])


def _next_numbers(version: Version, group: Group, rows: sparse.Rows, offsets: Tensor) -> Tensor:
    """The numbers of new synapses: for each neuron, those after the ones that it has or had."""
    following = torch.maximum(_following(version, group, rows), _promised(version, group))
    order = torch.argsort(offsets, stable=True)
    sorted_offsets = offsets[order]
    first = torch.searchsorted(sorted_offsets, sorted_offsets)
    nth = torch.empty_like(offsets)
    nth[order] = torch.arange(len(offsets)) - first
    return following[offsets] + nth


def _following(version: Version, group: Group, rows: sparse.Rows) -> Tensor:
    """The number after those that each neuron has."""
    following = torch.full((group.results[0].size,), own_width(version, group), dtype=torch.int64)
    return following.scatter_reduce_(0, rows.target, rows.number + 1, "amax")


def _promised(version: Version, group: Group) -> Tensor:
    """The number after those that each neuron ever had, as far as it was noted."""
    known = version.arrays_of(group).get(sparse.NEXT)
    return torch.zeros(group.results[0].size, dtype=torch.int64) if known is None else known.long()


def with_rows(version: Version, group: Group, rows: sparse.Rows, inputs: Inputs) -> Version:
    """With these as the added synapses of a group."""
    arrays = rows.arrays(group.results[0].size)
    before, _ = added_rows(version, group)
    ever = torch.maximum(_promised(version, group), _following(version, group, before))
    if bool((ever > _following(version, group, rows)).any()):
        arrays[sparse.NEXT] = ever.int()
    purposes = {p: f"{group.name}{MADE}{p}{version.number}" for p in arrays}
    kept = {p: name for p, name in group.weights.items() if p not in sparse.PURPOSES}
    changed = replace(
        group,
        inputs=(*group.own_inputs, *(port for port, _ in inputs)),
        added=tuple(size for _, size in inputs),
        weights={**kept, **purposes},
    )
    return version.with_group(changed, {purposes[p]: array for p, array in arrays.items()})


def tensor_of(values: Any, size: int) -> Tensor:
    """Numbers as a tensor of the widest floats: one for all, or as many as there must be."""
    try:
        found = torch.as_tensor(values, dtype=torch.float64).detach().cpu().clone()
    except (TypeError, ValueError, RuntimeError) as error:
        raise NeuronError("TP0904", f"these are no numbers: {str(error).splitlines()[0]}") from error
    if found.ndim == 0:
        found = found.expand(size).clone()
    if found.shape != (size,):
        raise NeuronError(
            "TP0904",
            f"there must be {size} numbers, one for each neuron or synapse, or only one; "
            f"given were {found.numel()}",
        )
    return found
