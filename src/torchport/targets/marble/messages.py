"""Evaluating a neuron graph by messages: neuron by neuron, along synapses, some thousand neurons at a time.

A message is the value of the neuron that a synapse comes from, times its weight. What a neuron makes of the messages
depends on its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from torchport.capture import operations
from torchport.targets.marble import works
from torchport.targets.marble.fans import FANS, Fan, Request, fan
from torchport.targets.marble.groups import Form, Group, Kind

AT_ONCE = 1 << 22
"""Messages that are in memory at a time."""
_JOINED: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda messages: messages.sum(-1),
    "mean": lambda messages: messages.mean(-1),
    "max": lambda messages: messages.amax(-1),
    "min": lambda messages: messages.amin(-1),
    "any": lambda messages: messages.any(-1),
    "all": lambda messages: messages.all(-1),
    "larger": lambda messages: messages.amax(-1),
    "smaller": lambda messages: messages.amin(-1),
}


def compute(
    group: Group, inputs: Sequence[Tensor], arrays: Mapping[str, Tensor], sizes: works.Sizes
) -> list[Tensor]:
    """The results of a group, message by message; what chooses or only hands on is done as `works` does it."""
    if group.kind is not Kind.FUNCTION and (group.kind, group.work) not in FANS:
        return works.compute(group, inputs, arrays, sizes)
    dtype = torch.result_type(*inputs[:2]) if len(inputs) == 2 else inputs[0].dtype
    values = torch.cat([value.reshape(-1).to(dtype) for value in inputs])
    own = {purpose: arrays[name] for purpose, name in group.weights.items()}
    options = {name: works.settled(value, sizes) for name, value in group.options.items()}
    forms = [Form(tuple(value.shape), str(value.dtype).removeprefix("torch.")) for value in inputs]
    result = group.results[0]
    found = []
    step = _step(group, forms, own)
    for start in range(0, result.size, step):
        asked = range(start, min(start + step, result.size))
        found.append(_received(group, values, fan(Request(group, forms, own, options, asked)), options))
    joined = torch.cat(found) if found else values[:0]
    return [joined.reshape(result.shape).to(getattr(torch, result.dtype))]


def _step(group: Group, inputs: Sequence[Form], arrays: Mapping[str, Tensor]) -> int:
    """How many neurons are done at a time."""
    each = max(1, sum(form.size for form in inputs) // max(1, group.results[0].size))
    if "weight" in arrays:
        each = arrays["weight"][0].numel()
    return max(1, AT_ONCE // each)


def _received(group: Group, values: Tensor, synapses: Fan, options: Mapping[str, object]) -> Tensor:
    messages = values[synapses.source]
    if group.kind is Kind.FUNCTION:
        return _function(group, messages[:, 0], options)
    if group.kind is Kind.PRODUCT:
        return messages.prod(-1)
    if group.kind is Kind.REDUCTION:
        return _JOINED[group.work](messages)
    if synapses.weight is not None:
        messages = messages * synapses.weight.to(messages.dtype)
    total = messages.sum(-1)
    return total if synapses.bias is None else total + synapses.bias.to(total.dtype)


def _function(group: Group, values: Tensor, options: Mapping[str, object]) -> Tensor:
    known = operations.arguments(group.work)
    given = {**options, known[0].name: values}
    args = [given[one.name] for one in known if not one.is_keyword_only and one.name in given]
    kwargs = {one.name: given[one.name] for one in known if one.is_keyword_only and one.name in given}
    result: Tensor = operations.overload(group.work)(*args, **kwargs)
    return result
