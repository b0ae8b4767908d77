"""Layers that weigh and add: products of matrices, and convolutions."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional as F

from .case import Case, Fn, rand


def products() -> Iterator[Case]:
    yield nn.Linear(5, 7), (rand(3, 5),)
    yield nn.Linear(5, 7, bias=False), (rand(2, 3, 5),)
    yield nn.Linear(5, 7), (rand(5),)
    yield nn.Bilinear(4, 5, 3), (rand(2, 4), rand(2, 5))
    for size in ((4, 5), (2, 4, 5), (3, 2, 4, 5)):
        yield Fn(torch.matmul), (rand(*size), rand(5, 3))
    yield Fn(torch.matmul), (rand(5), rand(5))
    yield Fn(torch.matmul), (rand(4, 5), rand(5))
    yield Fn(torch.matmul), (rand(5), rand(2, 5, 3))
    yield Fn(torch.matmul), (rand(3, 1, 4, 5), rand(2, 5, 3))
    yield Fn(torch.bmm), (rand(2, 4, 5), rand(2, 5, 3))
    yield Fn(lambda a, b, c: torch.addmm(a, b, c, beta=0.5, alpha=2)), (rand(3), rand(4, 5), rand(5, 3))
    yield Fn(lambda a, b, c: torch.baddbmm(a, b, c, alpha=2)), (rand(2, 4, 3), rand(2, 4, 5), rand(2, 5, 3))
    yield Fn(lambda a, b: torch.einsum("bij,bkj->bik", a, b)), (rand(2, 3, 4), rand(2, 5, 4))
    yield Fn(torch.outer), (rand(3), rand(4))


def convolutions() -> Iterator[Case]:
    image = rand(2, 4, 9, 8)
    yield nn.Conv1d(4, 6, 3), (rand(2, 4, 10),)
    yield nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2, bias=False), (rand(2, 4, 10),)
    yield nn.Conv1d(4, 6, 4, padding="same"), (rand(2, 4, 10),)
    yield nn.Conv1d(4, 6, 3, padding=2, padding_mode="circular"), (rand(2, 4, 10),)
    yield nn.Conv1d(4, 6, 3), (rand(4, 10),)
    yield nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)), (image,)
    yield nn.Conv2d(4, 4, 3, groups=4, padding=1, bias=False), (image,)
    yield nn.Conv2d(4, 6, 3, padding="valid"), (image,)
    yield nn.Conv2d(4, 6, (4, 3), padding="same", dilation=(1, 2)), (image,)
    for mode in ("reflect", "replicate", "circular"):
        yield nn.Conv2d(4, 6, 3, padding=(2, 1), padding_mode=mode, stride=2), (image,)
    yield nn.Sequential(nn.ZeroPad2d((0, 1, 2, 3)), nn.Conv2d(4, 6, 3)), (image,)
    yield nn.Conv2d(4, 6, 3), (rand(4, 9, 8),)
    yield nn.Conv3d(2, 4, (1, 2, 3), stride=(1, 2, 1), padding=(0, 1, 1), groups=2), (rand(1, 2, 3, 5, 6),)
    yield nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1), (rand(2, 4, 5),)
    yield nn.ConvTranspose2d(4, 6, 3, stride=(2, 1), dilation=2, groups=2, bias=False), (image,)
    yield Fn(lambda x, w: F.conv2d(x, w - w.mean(0), w[:, 0, 0, 0], padding=1)), (image, rand(6, 4, 3, 3))
    yield Fn(lambda x, w: F.conv_transpose1d(x, w * 2)), (rand(4, 5), rand(4, 2, 3))
    yield nn.Sequential(nn.Conv2d(4, 3, 3), nn.Flatten(), nn.Linear(3 * 7 * 6, 5)), (image,)
