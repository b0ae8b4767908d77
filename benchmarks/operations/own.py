"""Samples of our own, for what torch's database lacks: special numbers, views, and operations that it does not have."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .sample import Sample

_FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_INTEGERS = frozenset({torch.int64, torch.int32, torch.uint8})


def variants(sample: Sample) -> Iterator[Sample]:
    """The same call on views out of order, on special numbers, and on empty tensors."""
    if any(tensor.ndim > 0 for tensor in sample.tensors):
        yield sample.in_views()
    if sample.label.startswith("direct"):
        return  # torch checks nothing where it calls such an operation, and may end the process.
    if any(tensor.dtype in _FLOATS and tensor.numel() for tensor in sample.tensors):
        if sample.is_elementwise:
            yield sample.changed("special numbers", _all_special)
        else:
            yield sample.changed("a NaN", lambda t: _put(t, float("nan")))
            yield sample.changed("an infinity", lambda t: _put(t, float("inf")))
            yield sample.changed("zeros of both signs", _zeros)
    elif sample.is_elementwise and any(
        tensor.dtype in _INTEGERS and tensor.numel() for tensor in sample.tensors
    ):
        yield sample.changed("huge integers", _huge)
    if any(tensor.ndim > 0 and tensor.numel() for tensor in sample.tensors):
        yield sample.changed("empty", lambda t: t[:0] if t.ndim else t)


def _all_special(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype not in _FLOATS or not tensor.numel():
        return tensor
    info = torch.finfo(tensor.dtype)
    numbers = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, info.max, info.min, info.tiny]
    numbers += [-info.tiny, info.tiny / 4, info.eps, 0.5, 1.5, -2.5, -1.0, 1.0, 1e4, -1e4]
    return _filled(tensor, numbers)


def _huge(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype not in _INTEGERS or not tensor.numel():
        return tensor
    info = torch.iinfo(tensor.dtype)
    numbers = [info.max, info.min, info.max - 1, info.min + 1, info.max // 3, 0, 1, info.max // 1024 + 1]
    return _filled(tensor, numbers)


def _filled(tensor: torch.Tensor, numbers: list[float]) -> torch.Tensor:
    """The numbers over and over; tensors of other sizes begin elsewhere, so that pairs differ."""
    first = tensor.numel() % 7 + 3 * tensor.ndim
    values = [numbers[(first + index) % len(numbers)] for index in range(tensor.numel())]
    return torch.tensor(values, dtype=tensor.dtype).reshape(tensor.shape)


def _put(tensor: torch.Tensor, number: float) -> torch.Tensor:
    if tensor.dtype not in _FLOATS or not tensor.numel():
        return tensor
    changed = tensor.detach().clone().contiguous()
    changed.view(-1)[tensor.numel() // 3] = number
    return changed


def _zeros(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype not in _FLOATS or not tensor.numel():
        return tensor
    changed = tensor.detach().clone().contiguous()
    changed.view(-1)[::3] = 0.0
    changed.view(-1)[::2] *= 0.0
    return changed
