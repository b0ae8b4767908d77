"""Weighted sums by messages: each value times the weight of its synapse, added up, and the bias."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from torchport.targets.marble import works
from torchport.targets.marble.fans import fan
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
    """A message from every value in the window. All channels of a part see the same windows."""
    how, weight, bias = given.options, given.own["weight"], given.own.get("bias")
    (result,) = given.ask.results
    dtype = getattr(torch, result.dtype)
    samples, channels, *sizes = result.shape
    rows = kernels(weight, how["transposed"], how["groups"]).to(wide(dtype))
    each = channels // how["groups"]
    total = torch.empty(samples, channels, math.prod(sizes), dtype=wide(dtype))
    for part in range(how["groups"]):
        for sample, seen in enumerate(_windows(given, part * each, total.shape[2])):
            first = (sample * channels + part * each) * seen.shape[0]
            own = rows[part * each : (part + 1) * each]
            total[sample, part * each : (part + 1) * each] = _filtered(given, first, seen.to(own.dtype), own)
    if bias is not None:
        total += bias[:, None]
    return [total.to(dtype).reshape(result.shape)]


def _windows(given: Delivery, channel: int, spots: int) -> list[Tensor]:
    """For each sample, what a channel sees: `[spots, synapses]`, with 0 beyond the margin."""
    (value,) = given.inputs
    if not len(value):
        return []
    synapses = fan(given.ask, range(channel * spots, (channel + 1) * spots))
    found = []
    for sample in value.flatten(1):
        seen = sample.index_select(0, synapses.source.flatten()).reshape(synapses.source.shape)
        found.append(seen if synapses.present is None else seen.where(synapses.present, 0))
    return found


def _filtered(given: Delivery, first: int, seen: Tensor, rows: Tensor) -> Tensor:
    """The sums of some channels: `[channels, spots]`."""
    if given.observe is None:
        return rows @ seen.T
    total = rows.new_empty(len(rows), len(seen))
    for start, stop in portions(len(rows), seen.numel()):
        for begin, end in portions(len(seen), seen.shape[1] * (stop - start)):
            messages = rows[start:stop, None] * seen[begin:end]
            torch.sum(messages, -1, out=total[start:stop, begin:end])
            for nth, own in enumerate(messages, start):
                given.tell(first + nth * len(seen) + begin, own)
    return total


def bias(given: Delivery) -> list[Tensor]:
    """Neurons whose synapses were all added one by one receive nothing else but their bias."""
    return works.compute(given.group, given.inputs, given.arrays, given.sizes)


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
