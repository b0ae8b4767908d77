"""Convolutions as sums over taps, as products of matrices, by FFT, and after Winograd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from .patching import Replacement
from .rewriting import Arithmetic, add_patch, operation

Size = int | tuple[int, ...] | list[int]


@dataclass(frozen=True)
class Convolution:
    """A convolution in two dimensions: `x` has been padded, and the channels are in groups."""

    x: Tensor
    """batch, channels, height, width"""
    weight: Tensor
    stride: tuple[int, int]
    dilation: tuple[int, int]
    groups: int

    @property
    def kernel(self) -> tuple[int, int]:
        return self.weight.shape[2], self.weight.shape[3]

    @property
    def is_dense(self) -> bool:
        return self.stride == (1, 1) and self.dilation == (1, 1)

    @property
    def grouped_weight(self) -> Tensor:
        """group, output, channel, height, width"""
        return self.weight.reshape(self.groups, -1, *self.weight.shape[1:])

    @property
    def size(self) -> tuple[int, int]:
        reach = [d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel)]
        height, width = (
            (n - r) // s + 1 for n, r, s in zip(self.x.shape[2:], reach, self.stride, strict=True)
        )
        return height, width

    def tap(self, row: int, column: int) -> Tensor:
        """What one element of the kernel is multiplied with: batch, group, channel, height, width."""
        across = []
        for place, d, s, n in zip((row, column), self.dilation, self.stride, self.size):
            across.append(slice(place * d, place * d + s * (n - 1) + 1, s))
        return self.by_group(self.x[:, :, across[0], across[1]])

    def by_group(self, x: Tensor) -> Tensor:
        """The second axis, of channels, as two: groups and the channels of each."""
        return x.reshape(x.shape[0], self.groups, -1, *x.shape[2:])

    def places(self) -> list[tuple[int, int]]:
        return [(row, column) for row in range(self.kernel[0]) for column in range(self.kernel[1])]


Algorithm = Callable[[Convolution], Tensor | None]


def two(value: Size) -> tuple[int, int]:
    items = [value] if isinstance(value, int) else list(value)
    return (items[0], items[-1])


def replacements(algorithm: Algorithm) -> dict[str, Replacement]:
    """The algorithm in place of convolutions of one and two dimensions."""

    def conv2d(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
    ) -> Tensor | None:
        if isinstance(padding, str) or x.ndim != 4:
            return None
        down, across = two(padding)
        padded = F.pad(x, (across, across, down, down))
        y = algorithm(Convolution(padded, weight, two(stride), two(dilation), groups))
        return y if y is None or bias is None else y + bias[:, None, None]

    def conv1d(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
    ) -> Tensor | None:
        if isinstance(padding, str) or x.ndim != 3:
            return None
        flat_stride, flat_padding, flat_dilation = (
            (first, two(size)[-1]) for first, size in ((1, stride), (0, padding), (1, dilation))
        )
        y = conv2d(x[:, :, None], weight[:, :, None], bias, flat_stride, flat_padding, flat_dilation, groups)
        return None if y is None else y.squeeze(2)

    return {"conv1d": conv1d, "conv2d": conv2d}


def convolution(kind: str, arithmetic: Arithmetic = "float32") -> Callable[[Algorithm], Algorithm]:
    """Registers an algorithm for convolutions."""

    def decorate(algorithm: Algorithm) -> Algorithm:
        add_patch(kind, replacements(algorithm), arithmetic)
        return algorithm

    return decorate


@convolution("convolution: sum over taps")
def over_taps(conv: Convolution) -> Tensor:
    total = torch.zeros(1)
    for row, column in conv.places():
        weight = conv.grouped_weight[:, :, :, row, column]
        total = total + torch.einsum("ngchw,goc->ngohw", conv.tap(row, column), weight)
    return total.flatten(1, 2)


@convolution("convolution: unfold and matmul")
def by_unfold(conv: Convolution) -> Tensor:
    columns = F.unfold(conv.x, conv.kernel, dilation=conv.dilation, stride=conv.stride)
    y = conv.grouped_weight.flatten(2) @ conv.by_group(columns)
    return y.reshape(len(y), -1, *conv.size)


def by_fft(conv: Convolution, dtype: torch.dtype) -> Tensor:
    height, width = conv.x.shape[2:]
    spread = conv.weight.new_zeros(
        *conv.weight.shape[:2], *(d * (k - 1) + 1 for d, k in zip(conv.dilation, conv.kernel))
    )
    spread[:, :, :: conv.dilation[0], :: conv.dilation[1]] = conv.weight
    waves = conv.by_group(torch.fft.rfft2(conv.x.to(dtype)))
    kernel = torch.fft.rfft2(spread.to(dtype), s=(height, width)).conj()
    kernel = kernel.reshape(conv.groups, -1, *kernel.shape[1:])
    y: Tensor = torch.fft.irfft2(torch.einsum("ngchw,gochw->ngohw", waves, kernel), s=(height, width))
    rows, columns = (s * (n - 1) + 1 for s, n in zip(conv.stride, conv.size))
    return y[..., : rows : conv.stride[0], : columns : conv.stride[1]].flatten(1, 2).to(conv.x.dtype)


@convolution("convolution: FFT in float32", "transforms")
def by_fft32(conv: Convolution) -> Tensor:
    return by_fft(conv, torch.float32)


@convolution("convolution: FFT in float64")
def by_fft64(conv: Convolution) -> Tensor:
    return by_fft(conv, torch.float64)


_INPUT = ((1.0, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
_KERNEL = ((1.0, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))
_OUTPUT = ((1.0, 1, 1, 0), (0, 1, -1, -1))


@convolution("convolution: Winograd F(2,3)", "transforms")
def by_winograd(conv: Convolution) -> Tensor | None:
    if conv.kernel != (3, 3) or not conv.is_dense:
        return None
    b, g, a = (torch.tensor(rows, dtype=conv.x.dtype) for rows in (_INPUT, _KERNEL, _OUTPUT))
    height, width = conv.size
    padded = F.pad(conv.x, (0, width % 2, 0, height % 2))
    tiles = conv.by_group(padded.unfold(2, 4, 2).unfold(3, 4, 2))
    there = b @ tiles @ b.T
    kernel = g @ conv.grouped_weight @ g.T
    back = a @ torch.einsum("ngcrsij,gocij->ngorsij", there, kernel) @ a.T
    y = back.transpose(-3, -2).flatten(-4, -3).flatten(-2)
    return y.flatten(1, 2)[..., :height, :width]


@convolution("convolution: 1x1 as linear")
def as_linear(conv: Convolution) -> Tensor | None:
    if conv.kernel != (1, 1) or conv.groups > 1:
        return None
    x = conv.tap(0, 0).flatten(1, 2)
    return F.linear(x.permute(0, 2, 3, 1), conv.weight[:, :, 0, 0]).permute(0, 3, 1, 2)


@convolution("convolution: depthwise as products")
def depthwise(conv: Convolution) -> Tensor | None:
    if conv.groups == 1 or conv.weight.shape[1] != 1:
        return None
    total = torch.zeros(1)
    for row, column in conv.places():
        total = total + conv.tap(row, column) * conv.grouped_weight[:, :, 0, row, column][:, :, None, None]
    return total.flatten(1, 2)


def plain(conv: Convolution, x: Tensor, weight: Tensor, groups: int) -> Tensor:
    return F.conv2d(x, weight, None, conv.stride, 0, conv.dilation, groups)


@convolution("convolution: each group alone")
def groups_alone(conv: Convolution) -> Tensor | None:
    if conv.groups == 1:
        return None
    parts = zip(conv.x.chunk(conv.groups, 1), conv.weight.chunk(conv.groups))
    return torch.cat([plain(conv, x, weight, 1) for x, weight in parts], 1)


@convolution("convolution: channels in 2 halves")
def in_halves(conv: Convolution) -> Tensor | None:
    if conv.groups > 1 or conv.x.shape[1] < 2:
        return None
    first, second = zip(conv.x.chunk(2, 1), conv.weight.chunk(2, 1))
    return plain(conv, *first, 1) + plain(conv, *second, 1)


@convolution("convolution: channels in reverse")
def reversed_channels(conv: Convolution) -> Tensor | None:
    return plain(conv, conv.x.flip(1), conv.weight.flip(1), 1) if conv.groups == 1 else None


@convolution("convolution: taps in reverse")
def reversed_taps(conv: Convolution) -> Tensor | None:
    if conv.kernel == (1, 1) or conv.stride != (1, 1):
        return None
    return plain(conv, conv.x.flip(2, 3), conv.weight.flip(2, 3), conv.groups).flip(2, 3)


@convolution("convolution: channels last")
def channels_last(conv: Convolution) -> Tensor:
    layout = torch.channels_last
    x, weight = (tensor.contiguous(memory_format=layout) for tensor in (conv.x, conv.weight))
    return plain(conv, x, weight, conv.groups).contiguous()


@convolution("convolution: without oneDNN")
def without_onednn(conv: Convolution) -> Tensor:
    with torch.backends.mkldnn.flags(enabled=False):
        return plain(conv, conv.x, conv.weight, conv.groups)


@convolution("convolution: each sample alone")
def samples_alone(conv: Convolution) -> Tensor | None:
    if conv.x.shape[0] < 2:
        return None
    return torch.cat([plain(conv, sample, conv.weight, conv.groups) for sample in torch.split(conv.x, 1)])


@convolution("convolution: float64 inside")
def in_float64(conv: Convolution) -> Tensor:
    return plain(conv, conv.x.double(), conv.weight.double(), conv.groups).to(conv.x.dtype)


@operation("transposed convolution: zeros between, then a convolution", "conv_transpose2d")
def transposed(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor | None:
    if groups > 1 or two(dilation) != (1, 1):
        return None
    (down, across), kernel = two(stride), weight.shape[2:]
    spread = x.new_zeros(*x.shape[:2], (x.shape[2] - 1) * down + 1, (x.shape[3] - 1) * across + 1)
    spread[:, :, ::down, ::across] = x
    pads = []
    for axis in (1, 0):
        edge = kernel[axis] - 1 - two(padding)[axis]
        pads += [edge, edge + two(output_padding)[axis]]
    return F.conv2d(F.pad(spread, pads), weight.flip(2, 3).transpose(0, 1), bias)
