"""Norms, softmaxes and statistics."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional as F

from .case import Case, Fn, rand, trained


def norms() -> Iterator[Case]:
    yield trained(nn.BatchNorm1d(4, eps=1e-3), 2, 4), (rand(3, 4),)
    yield trained(nn.BatchNorm1d(4), 2, 4, 5), (rand(3, 4, 5),)
    yield trained(nn.BatchNorm2d(4, affine=False), 2, 4, 3, 3), (rand(3, 4, 3, 3),)
    yield nn.BatchNorm2d(4, track_running_stats=False), (rand(3, 4, 3, 3),)
    yield trained(nn.BatchNorm3d(2), 2, 2, 2, 2, 2), (rand(2, 2, 2, 2, 2),)
    yield nn.LayerNorm(6, eps=1e-2), (rand(2, 3, 6),)
    yield trained(nn.LayerNorm((3, 6)), 2, 3, 6), (rand(2, 3, 6),)
    yield nn.LayerNorm(6, elementwise_affine=False), (rand(2, 6),)
    yield trained(nn.LayerNorm(6, bias=False), 2, 6), (rand(2, 6),)
    yield trained(nn.GroupNorm(2, 6, eps=1e-3), 2, 6, 4), (rand(2, 6, 4),)
    yield nn.GroupNorm(3, 6, affine=False), (rand(2, 6, 3, 3),)
    yield trained(nn.InstanceNorm2d(3, affine=True), 2, 3, 4, 4), (rand(2, 3, 4, 4),)
    yield trained(nn.RMSNorm(6, eps=1e-4), 2, 6), (rand(2, 3, 6),)
    yield nn.RMSNorm(6), (rand(2, 6),)
    yield nn.LocalResponseNorm(2), (rand(2, 4, 3, 3),)
    yield nn.Softmax(dim=1), (rand(2, 4, 3),)
    yield nn.LogSoftmax(dim=-1), (rand(2, 4),)
    yield nn.Softmin(dim=0), (rand(3, 4),)
    yield Fn(lambda x: x.float().softmax(-1, dtype=torch.float64)), (rand(3, 4),)
    yield Fn(lambda x: F.normalize(x, dim=1)), (rand(3, 4),)
    yield (
        Fn(lambda x: (x.var(1), x.var(0, correction=0), x.std(), x.var((0, 1), keepdim=True))),
        (rand(3, 4),),
    )
    yield Fn(lambda x: (x.logsumexp(1), x.logsumexp((0, 1), keepdim=True), x.norm(dim=1))), (rand(3, 4),)
