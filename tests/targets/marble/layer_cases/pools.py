"""Pools, and other layers that look at windows without weights."""

from collections.abc import Iterator

from torch import nn

from .case import Case, Fn, rand


def pools() -> Iterator[Case]:
    image, line = rand(2, 3, 9, 8), rand(2, 3, 11)
    yield nn.MaxPool1d(3, stride=2, padding=1), (line,)
    yield nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), (image,)
    yield nn.MaxPool2d((2, 3), dilation=(2, 1)), (image,)
    yield nn.MaxPool2d(2, return_indices=True), (image,)
    yield nn.MaxPool3d(2), (rand(1, 2, 4, 4, 4),)
    yield nn.AvgPool1d(3, stride=2, padding=1), (line,)
    yield nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False, ceil_mode=True), (image,)
    yield nn.AvgPool2d(2, divisor_override=3), (image,)
    yield nn.AvgPool3d(2), (rand(1, 2, 4, 4, 4),)
    yield nn.AdaptiveAvgPool1d(4), (line,)
    yield nn.AdaptiveAvgPool2d((5, 3)), (image,)
    yield nn.AdaptiveAvgPool2d(1), (image,)
    yield nn.AdaptiveMaxPool1d(4), (line,)
    yield nn.AdaptiveMaxPool2d((5, 3)), (image,)
    yield nn.LPPool2d(2, 3), (image.abs(),)
    yield Fn(lambda x: x.mean(dim=(2, 3))), (image,)
    yield Fn(lambda x: x.amax(dim=(2, 3), keepdim=True)), (image,)
    yield nn.Upsample(scale_factor=2, mode="bilinear"), (image,)
    yield nn.Upsample(size=(5, 12), mode="bicubic", align_corners=True), (image,)
    yield nn.Upsample(scale_factor=3), (image,)
    yield nn.PixelShuffle(2), (rand(1, 8, 3, 3),)
    yield nn.Unfold(3, padding=1, stride=2), (image,)
    yield nn.Fold((4, 5), 2), (rand(1, 3 * 4, 12),)
