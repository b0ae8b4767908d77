"""Messages that arrive side by side: one from each input, or all along some axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from torchport.targets.marble import works
from torchport.targets.marble.fans import reaches
from torchport.targets.marble.fans.patterns import pooling_steps, spatial
from torchport.targets.marble.fans.windows import window_size
from torchport.targets.marble.messages.delivery import Delivery, wide

Joined = Callable[[Tensor, Mapping[str, Any]], Tensor]
"""Takes the messages of each neuron as a row, and options, and gives what the neurons make of them."""


def broadcast(values: Sequence[Tensor]) -> torch.Size:
    """The shape that values have together."""
    shape: torch.Size = torch.broadcast_shapes(*(value.shape for value in values))  # type: ignore[no-untyped-call]
    return shape


def columns(given: Delivery) -> list[Tensor]:
    """The message from each input to every neuron. One that is the same for all keeps its rank of 0.

    torch's rules for dtypes tell such a value from others.
    """
    shape = broadcast(given.inputs)
    return [value.expand(shape) if value.ndim else value for value in given.inputs]


def tell_columns(given: Delivery, messages: list[Tensor]) -> None:
    if given.observe is not None:
        shape = broadcast(messages)
        given.tell_rows(torch.cat([message.expand(shape).reshape(-1, 1) for message in messages], 1))


def product(given: Delivery) -> list[Tensor]:
    return [_combined(given, torch.mul)]


def quotient(given: Delivery) -> list[Tensor]:
    """The first message times the inverse of the second."""
    return [_combined(given, torch.div)]


def larger(given: Delivery) -> list[Tensor]:
    return [_combined(given, torch.maximum)]


def smaller(given: Delivery) -> list[Tensor]:
    return [_combined(given, torch.minimum)]


def _combined(given: Delivery, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    messages = columns(given)
    tell_columns(given, messages)
    return reduce(combine, messages)


def function(given: Delivery) -> list[Tensor]:
    """A function of the one message. The function does not learn where the neurons are."""
    value, *rest = given.inputs
    tell_columns(given, [value])
    (result,) = works.compute(given.group, [value.reshape(-1), *rest], given.arrays, given.sizes)
    return [result.reshape(value.shape)]


def compared(given: Delivery) -> list[Tensor]:
    """A function of one message from each input."""
    messages = columns(given)
    tell_columns(given, messages)
    return works.compute(given.group, messages, given.arrays, given.sizes)


def rows(given: Delivery, value: Tensor) -> Tensor:
    """The values along the axes that are reduced, as a row for each neuron."""
    (reach,) = reaches(given.ask, given.ask.results[0])
    kept = [nth for nth, axis in enumerate(reach.axes) if axis.along is not None or axis.table.shape[1] == 1]
    gone = [nth for nth in range(value.ndim) if nth not in kept]
    return value.permute([*kept, *gone]).reshape(given.ask.results[0].size, reach.width)


def along_axes(joined: Joined) -> Callable[[Delivery], list[Tensor]]:
    """A reduction of all values along some axes."""

    def work(given: Delivery) -> list[Tensor]:
        dtype = given.options.get("dtype")
        value = given.inputs[0]
        messages = rows(given, value if dtype is None else value.to(dtype))
        given.tell_rows(messages)
        return [joined(messages, given.options).reshape(given.ask.results[0].shape)]

    return work


def _vector_norm(messages: Tensor, options: Mapping[str, Any]) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(messages, options.get("ord", 2), -1)
    return norm


def _norm(messages: Tensor, options: Mapping[str, Any]) -> Tensor:
    return _vector_norm(messages, {} if options["p"] is None else {"ord": options["p"]})


JOINED: dict[str, Joined] = {
    "sum": lambda messages, options: messages.sum(-1),
    "mean": lambda messages, options: messages.mean(-1),
    "max": lambda messages, options: messages.amax(-1),
    "min": lambda messages, options: messages.amin(-1),
    "any": lambda messages, options: messages.any(-1),
    "all": lambda messages, options: messages.all(-1),
    "aten.prod.default": lambda messages, options: messages.prod(-1),
    "aten.prod.dim_int": lambda messages, options: messages.prod(-1),
    "aten.linalg_vector_norm.default": _vector_norm,
    "aten.norm.ScalarOpt_dim": _norm,
    "aten.norm_except_dim.default": lambda messages, options: _vector_norm(
        messages, {"ord": options.get("pow", 2)}
    ),
}


def largest_in_window(given: Delivery) -> list[Tensor]:
    dtype = given.inputs[0].dtype
    nothing = -torch.inf if dtype.is_floating_point else torch.iinfo(dtype).min
    return [_in_windows(given, dtype, nothing, lambda messages: messages.amax(-1))]


def product_so_far(given: Delivery) -> list[Tensor]:
    dtype = getattr(torch, given.ask.results[0].dtype)
    return [_in_windows(given, dtype, 1, lambda messages: messages.prod(-1))]


def log_of_sum_so_far(given: Delivery) -> list[Tensor]:
    dtype = given.inputs[0].dtype
    total = _in_windows(given, wide(dtype), -torch.inf, lambda messages: messages.logsumexp(-1))
    return [total.to(dtype)]


def distance(given: Delivery) -> list[Tensor]:
    """How far the row of messages from one input is from that from the other."""
    result, power = given.ask.results[0], given.options["p"]
    total = torch.empty(result.size, dtype=getattr(torch, result.dtype))
    for start, synapses in given.fans():
        messages = given.values[synapses.source]
        given.tell(start, messages)
        first, second = messages.chunk(2, -1)
        total[start : start + len(messages)] = _vector_norm(first - second, {"ord": power})
    return [total.reshape(result.shape)]


def average_in_window(given: Delivery) -> list[Tensor]:
    value = given.inputs[0]
    total = _in_windows(given, wide(value.dtype), 0, lambda messages: messages.sum(-1))
    return [(total / _divisor(given)).to(value.dtype)]


def _in_windows(
    given: Delivery, dtype: torch.dtype, nothing: float, joined: Callable[[Tensor], Tensor]
) -> Tensor:
    """What is made of the values in each window, with a number for those beyond the margin."""
    form = given.ask.results[0]
    values = given.inputs[0].reshape(-1).to(dtype)
    total = torch.empty(form.size, dtype=dtype)
    for start, synapses in given.fans():
        messages = values.index_select(0, synapses.source.flatten()).reshape(synapses.source.shape)
        shown = messages if synapses.present is None else messages.where(synapses.present, 0)
        given.tell(start, shown)
        seen = messages if synapses.present is None else messages.where(synapses.present, nothing)
        total[start : start + len(seen)] = joined(seen)
    return total.reshape(form.shape)


def _divisor(given: Delivery) -> Tensor:
    """How many positions each average is taken of."""
    ask, result = given.ask, given.ask.results[0]
    if ask.options.get("divisor_override"):
        return torch.tensor(ask.options["divisor_override"])
    if "adaptive" in given.group.work:
        (reach,) = reaches(ask, result)
        windows = reach.axes[-len(spatial(ask, result)[0]) :]
        counts = [(axis.table >= 0).sum(1) for axis in windows]
    else:
        is_padded = ask.options.get("count_include_pad", True)
        along = zip(*spatial(ask, result), pooling_steps(ask), strict=True)
        counts = [window_size(size, spots, *step[:3], is_padded) for size, spots, step in along]
    total = torch.ones((), dtype=torch.int64)
    for count in counts:
        total = total[..., None] * count
    return total
