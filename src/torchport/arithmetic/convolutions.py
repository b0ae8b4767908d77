"""Convolutions and their gradients as sums of products, in a class of arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from torchport.arithmetic import transforms
from torchport.arithmetic.classes import Arithmetic
from torchport.arithmetic.sums import product, total


@dataclass(frozen=True)
class Convolution:
    """The arguments of `aten.convolution` beside its tensors."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool
    output_padding: Sequence[int]
    groups: int

    def eager(self, given: Tensor, weight: Tensor) -> Tensor:
        return torch.convolution(
            given,
            weight,
            None,
            self.stride,
            self.padding,
            self.dilation,
            self.transposed,
            self.output_padding,
            self.groups,
        )

    def eager_gradient(self, gradient: Tensor, given: Tensor, weight: Tensor, *, of_input: bool) -> Tensor:
        """The gradient of the input, or that of the weight."""
        how = (self.stride, self.padding, self.dilation, self.transposed, self.output_padding, self.groups)
        found: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward.default(
            gradient, given, weight, None, *how, [of_input, not of_input, False]
        )
        return found[0 if of_input else 1]

    @property
    def is_flat(self) -> bool:
        return len(self.stride) <= 2 and not self.transposed

    def places(self, sizes: Sequence[int], kernel: Sequence[int]) -> list[int]:
        """The sizes of the output, without batch and channels."""
        along = zip(sizes, kernel, self.stride, self.padding, self.dilation, strict=True)
        return [(size + 2 * pad - far * (taps - 1) - 1) // step + 1 for size, taps, step, pad, far in along]

    def columns(self, given: Tensor, kernel: Sequence[int]) -> Tensor:
        """`[batch, groups, terms, places]`: what each place of the output is a product with, of one or two axes."""
        if len(kernel) == 1:
            given = given.unsqueeze(-2)
        flat = functional.unfold(
            given,
            _two(kernel, 1),
            dilation=_two(self.dilation, 1),
            padding=_two(self.padding, 0),
            stride=_two(self.stride, 1),
        )
        return flat.reshape(len(flat), self.groups, -1, flat.shape[-1])


def _two(sizes: Sequence[int], first: int) -> tuple[int, ...]:
    return tuple(sizes) if len(sizes) == 2 else (first, *sizes)


def convolve(
    given: Tensor, weight: Tensor, how: Convolution, arithmetic: Arithmetic, bias: Tensor | None = None
) -> Tensor:
    """The convolution; `bias` has one axis for each of the output's but the batch."""
    if how.is_flat:
        summed = _by_columns(given, weight, how, arithmetic, bias)
    else:
        summed = _by_channels(given, weight, how, arithmetic)
        summed = summed if bias is None else summed + bias
    if not arithmetic.transforms or how.transposed:
        return summed
    eager = how.eager(given, weight)
    return transforms.convolve(given, weight, how) + (summed - eager)


def _by_columns(
    given: Tensor, weight: Tensor, how: Convolution, arithmetic: Arithmetic, bias: Tensor | None
) -> Tensor:
    """A convolution of one or two axes, as a product of matrices."""
    columns = how.columns(given, weight.shape[2:])
    rows = weight.reshape(how.groups, weight.shape[0] // how.groups, -1)
    places = how.places(given.shape[2:], weight.shape[2:])
    start = None if bias is None else bias.reshape(how.groups, -1, 1)
    return product(rows, columns, arithmetic, start).reshape(len(given), len(weight), *places)


def weight_gradient(
    gradient: Tensor, given: Tensor, weight: Tensor, how: Convolution, arithmetic: Arithmetic
) -> Tensor:
    """The gradient of the weight of a convolution of one or two axes: a sum over all places of all samples."""
    columns = how.columns(given, weight.shape[2:])
    rows = gradient.reshape(len(gradient), how.groups, weight.shape[0] // how.groups, -1)
    first = rows.permute(1, 2, 0, 3).flatten(2)
    second = columns.permute(1, 0, 3, 2).flatten(1, 2)
    summed = product(first, second, arithmetic).reshape(weight.shape)
    if not arithmetic.transforms:
        return summed
    eager = how.eager_gradient(gradient, given, weight, of_input=False)
    return transforms.weight_gradient(gradient, given, weight, how) + (summed - eager)


def _by_channels(given: Tensor, weight: Tensor, how: Convolution, arithmetic: Arithmetic) -> Tensor:
    """Other convolutions, one channel of the input after the other."""
    if arithmetic.operands is not None:
        given, weight = arithmetic.operands(given), arithmetic.operands(weight)
    if arithmetic.running_sum is None or how.groups > 1:
        return how.eager(given, weight)
    axis = 0 if how.transposed else 1
    summed: Tensor | None = None
    for channel in range(given.shape[1]):
        part = how.eager(given.narrow(1, channel, 1), weight.narrow(axis, channel, 1))
        summed = arithmetic.running_sum(part if summed is None else summed + part)
    return how.eager(given, weight) if summed is None else summed


def input_gradient(
    gradient: Tensor, given: Tensor, weight: Tensor, how: Convolution, arithmetic: Arithmetic
) -> Tensor | None:
    """The gradient of the input, one channel of the output after the other and one tap after the other.

    None for transposed convolutions, which are left as they are.
    """
    if how.transposed:
        return None
    if arithmetic.operands is not None:
        gradient, weight = arithmetic.operands(gradient), arithmetic.operands(weight)
    if arithmetic.running_sum is None:
        return how.eager_gradient(gradient, given, weight, of_input=True)
    summed, each = torch.zeros_like(given), len(weight) // how.groups
    for nth in range(each):
        # The nth channel of every group.
        one = gradient[:, nth::each]
        for tap in _taps(weight[nth::each]):
            summed = arithmetic.running_sum(summed + how.eager_gradient(one, given, tap, of_input=True))
    if not arithmetic.transforms:
        return summed
    eager = how.eager_gradient(gradient, given, weight, of_input=True)
    return transforms.input_gradient(gradient, given, weight, how) + (summed - eager)


def _taps(weight: Tensor) -> Iterator[Tensor]:
    """The weight with all of its taps zero but one, each in turn."""
    for index in range(weight[0, 0].numel()):
        alone = torch.zeros_like(weight)
        alone.flatten(2)[..., index] = weight.flatten(2)[..., index]
        yield alone


def bias_gradient(gradient: Tensor, arithmetic: Arithmetic) -> Tensor:
    return total(gradient, [axis for axis in range(gradient.ndim) if axis != 1], arithmetic)
