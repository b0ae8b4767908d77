"""Weighted sums by messages: each value times the weight of its synapse, added up, and the bias."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from torchport.targets.marble import works
from torchport.targets.marble.fans import reaches
from torchport.targets.marble.fans.reach import Rows
from torchport.targets.marble.fans.request import coordinates
from torchport.targets.marble.fans.weights import kernels
from torchport.targets.marble.messages.delivery import Delivery, portions, wide
from torchport.targets.marble.messages.together import columns


def aligned(given: Delivery) -> list[Tensor]:
    """One message from each input."""
    messages = []
    for index, (value, factor) in enumerate(zip(columns(given), given.options["factors"], strict=True)):
        weight = given.own.get(f"weight{index}")
        message = value if weight is None else value * weight
        messages.append(message if factor == 1 else message * factor)
    total = messages[0]
    for message in messages[1:]:
        total = total + message
    if given.observe is not None:
        shown = [message.expand(total.shape).reshape(-1, 1) for message in messages]
        given.tell_rows(torch.cat(shown, 1))
    bias = given.own.get("bias", given.options.get("bias"))
    return [total if bias is None else total + bias]


def dense(given: Delivery) -> list[Tensor]:
    """A message from every value along the last axis; a product of matrices if nobody looks."""
    (value,), weight, bias = given.inputs, given.own["weight"], given.own.get("bias")
    if given.observe is None:
        return [functional.linear(value, weight, bias)]
    dtype = torch.promote_types(value.dtype, weight.dtype)
    lines = value.reshape(value.shape[:-1].numel(), value.shape[-1]).to(wide(dtype))
    factors = weight.to(wide(dtype))
    total = torch.empty(len(lines), len(weight), dtype=wide(dtype))
    for first, last in portions(len(lines), factors.numel()):
        for start, stop in portions(len(weight), factors.shape[1] * (last - first)):
            messages = lines[first:last, None] * factors[start:stop]
            given.tell(first * len(weight) + start, messages.flatten(0, 1))
            torch.sum(messages, -1, out=total[first:last, start:stop])
    if bias is not None:
        total += bias
    return [total.to(dtype).reshape(*value.shape[:-1], len(weight))]


def convolution(given: Delivery) -> list[Tensor]:
    """A message from every value in the window. All channels of a part of the channels see the same windows."""
    how, weight, bias = given.options, given.own["weight"], given.own.get("bias")
    (result,) = given.ask.results
    dtype = getattr(torch, result.dtype)
    samples, channels, *sizes = result.shape
    spots, parts = math.prod(sizes), how["groups"]
    rows = kernels(weight, how["transposed"], parts).to(wide(dtype))
    rows = rows.reshape(parts, channels // parts, rows.shape[1])
    total = torch.empty(samples, parts, channels // parts, spots, dtype=wide(dtype))
    for start, stop in portions(parts if samples else 0, spots * rows.shape[2]):
        windows = _of_first_channels(given, range(start, stop), channels // parts, spots)
        for sample, values in enumerate(given.inputs[0].flatten(1).to(wide(dtype))):
            seen = values.index_select(0, windows.source.flatten()).reshape(windows.source.shape)
            seen = seen if windows.present is None else seen.where(windows.present, 0)
            first = (sample * parts + start) * rows.shape[1] * spots
            seen = seen.reshape(stop - start, spots, rows.shape[2])
            total[sample, start:stop] = _filtered(given, first, seen, rows[start:stop])
    total = total.reshape(samples, channels, spots)
    if bias is not None:
        total += bias[:, None]
    return [total.to(dtype).reshape(result.shape)]


def _of_first_channels(given: Delivery, parts: range, each: int, spots: int) -> Rows:
    """The windows of the first channel of some parts, which the others of the part share, in the first sample."""
    (result,) = given.ask.results
    (reach,) = reaches(given.ask, result)
    part = torch.arange(parts.start, parts.stop)
    neurons = ((part * each * spots)[:, None] + torch.arange(spots)).flatten()
    return reach.rows(coordinates(neurons, result.shape), len(neurons))


def _in_order(parts: int, channels: int, synapses: int) -> Iterator[tuple[range, int, int]]:
    """Some whole parts at a time, if they are small, or some channels of one part."""
    for first, last in portions(parts, channels * synapses):
        for start, stop in portions(channels, synapses * (last - first)):
            yield range(first, last), start, stop


def _tell_each_channel(given: Delivery, first: int, messages: Tensor, place: tuple[int, int, int]) -> None:
    """Shows messages `[parts, channels, spots, synapses]`; neurons are in a row if whole channels are there."""
    channel, begin, spots = place
    shown = messages.flatten(0, 1)
    if shown.shape[1] == spots:
        given.tell(first + channel * spots, shown.flatten(0, 1))
        return
    for nth, own in enumerate(shown, channel):
        given.tell(first + nth * spots + begin, own)


def _filtered(given: Delivery, first: int, seen: Tensor, rows: Tensor) -> Tensor:
    """The sums of some parts: of `[parts, spots, synapses]` and `[parts, channels, synapses]`."""
    if given.observe is None:
        return rows @ seen.mT
    parts, channels, synapses = rows.shape
    total = rows.new_empty(parts, channels, seen.shape[1])
    for nth, start, stop in _in_order(parts, channels, seen[0].numel()):
        for begin, end in portions(seen.shape[1], synapses * (stop - start) * len(nth)):
            own = slice(nth.start, nth.stop)
            messages = rows[own, start:stop, None] * seen[own, None, begin:end]
            total[own, start:stop, begin:end] = messages.sum(-1)
            _tell_each_channel(given, first, messages, (nth.start * channels + start, begin, seen.shape[1]))
    return total


def sparse(given: Delivery) -> list[Tensor]:
    """A message along each synapse of the list; a product with a sparse matrix if nobody looks."""
    row, source, weight = (given.own[purpose] for purpose in ("row", "source", "weight"))
    if given.observe is None:
        return works.compute(given.group, given.inputs, given.arrays, given.sizes)
    dtype = torch.promote_types(weight.dtype, given.values.dtype)
    dtype = torch.int64 if dtype is torch.bool else dtype
    values, row = given.values.to(wide(dtype)), row.long()
    parts = []
    for start, stop in portions(len(row) - 1, math.ceil(len(source) / max(1, len(row) - 1))):
        begin, end = int(row[start]), int(row[stop])
        messages = weight[begin:end].to(wide(dtype)) * values.index_select(0, source[begin:end])
        given.tell(start, messages, stop - start)
        parts.append(_by_row(messages, row[start : stop + 1] - begin))
    total = torch.cat(parts) if parts else values[:0]
    shaped = total.to(dtype).reshape(given.options.get("shape", [-1]))
    return [shaped + given.own["bias"].reshape(shaped.shape) if "bias" in given.own else shaped]


def _by_row(messages: Tensor, row: Tensor) -> Tensor:
    if messages.is_floating_point():
        return torch.segment_reduce(messages, "sum", offsets=row, initial=0)
    rows = torch.arange(len(row) - 1).repeat_interleave(row.diff())
    return messages.new_zeros(len(row) - 1).index_add(0, rows, messages)


def along_synapses(given: Delivery) -> list[Tensor]:
    """Any other weighted sum."""
    (result,) = given.ask.results
    dtype = getattr(torch, result.dtype)
    counted = torch.int64 if dtype is torch.bool else wide(dtype)
    total = torch.empty(result.size, dtype=counted)
    values = given.values.to(counted)
    for start, synapses in given.fans():
        assert synapses.weight is not None
        messages = values[synapses.source] * synapses.weight.to(counted)
        if synapses.present is not None:
            messages = messages.where(synapses.present, 0)
        given.tell(start, messages)
        torch.sum(messages, -1, out=total[start : start + len(messages)])
    if dtype is torch.bool and given.group.work == "aten.diff.default":
        total = total % 2  # torch's difference of flags is whether they differ.
    return [total.to(dtype).reshape(result.shape)]
