"""Convolutions and their gradients by Fourier transforms in float32.

An element of the result is made of waves through all of the input, so that its error is that of the largest elements,
even if it is small or zero itself. The same holds for other transforms, such as Winograd's, within a tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from torchport.arithmetic.convolutions import Convolution


def convolve(given: Tensor, weight: Tensor, how: Convolution) -> Tensor:
    """The convolution without its bias; not for transposed ones."""
    padded = _padded(given, how)
    sizes = padded.shape[2:]
    kernels = _by_group(_waves(_spread(weight, how.dilation), sizes), how.groups, 0)
    waves = torch.einsum(
        "ngc...,goc...->ngo...", _by_group(_waves(padded, sizes), how.groups, 1), kernels.conj()
    )
    return _values(waves.flatten(1, 2), sizes)[
        _every(how.stride, how.places(given.shape[2:], weight.shape[2:]))
    ]


def input_gradient(gradient: Tensor, given: Tensor, weight: Tensor, how: Convolution) -> Tensor:
    sizes = _padded(given, how).shape[2:]
    kernels = _by_group(_waves(_spread(weight, how.dilation), sizes), how.groups, 0)
    arrived = _by_group(_waves(_spread(gradient, how.stride), sizes), how.groups, 1)
    waves = torch.einsum("ngo...,goc...->ngc...", arrived, kernels)
    inside = [slice(pad, pad + size) for pad, size in zip(how.padding, given.shape[2:], strict=True)]
    return _values(waves.flatten(1, 2), sizes)[(slice(None), slice(None), *inside)]


def weight_gradient(gradient: Tensor, given: Tensor, weight: Tensor, how: Convolution) -> Tensor:
    padded = _padded(given, how)
    sizes = padded.shape[2:]
    arrived = _by_group(_waves(_spread(gradient, how.stride), sizes), how.groups, 1)
    waves = torch.einsum(
        "ngo...,ngc...->goc...", arrived.conj(), _by_group(_waves(padded, sizes), how.groups, 1)
    )
    return _values(waves.flatten(0, 1), sizes)[_every(how.dilation, weight.shape[2:])]


def _padded(given: Tensor, how: Convolution) -> Tensor:
    return functional.pad(given, [pad for pad in reversed(how.padding) for _ in range(2)])


def _spread(values: Tensor, steps: Sequence[int]) -> Tensor:
    """The values with zeros between them, so that each is `steps` from the next."""
    sizes = [step * (size - 1) + 1 for step, size in zip(steps, values.shape[2:], strict=True)]
    spread = values.new_zeros(*values.shape[:2], *sizes)
    spread[_every(steps, values.shape[2:])] = values
    return spread


def _every(steps: Sequence[int], counts: Sequence[int]) -> tuple[slice, ...]:
    """Every so many elements of the axes after the first two, `counts` of them."""
    along = (slice(0, step * (count - 1) + 1, step) for step, count in zip(steps, counts, strict=True))
    return (slice(None), slice(None), *along)


def _by_group(values: Tensor, groups: int, axis: int) -> Tensor:
    shape = values.shape
    return values.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])


def _waves(values: Tensor, sizes: Sequence[int]) -> Tensor:
    waves: Tensor = torch.fft.rfftn(values, s=list(sizes), dim=list(range(2, values.ndim)))
    return waves


def _values(waves: Tensor, sizes: Sequence[int]) -> Tensor:
    values: Tensor = torch.fft.irfftn(waves, s=list(sizes), dim=list(range(2, waves.ndim)))
    return values
