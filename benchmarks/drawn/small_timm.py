"""Architectures of timm: one for each family, in its smallest size, on the pictures that it is made for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from torch import nn

MOST_PARAMETERS = 40e6
_SIZES = (
    "atto",
    "femto",
    "pico",
    "nano",
    "xxs",
    "tiny",
    "xs",
    "mini",
    "small",
    "s",
    "18",
    "050",
    "0",
    "a0",
    "b0",
)
"""Parts of names that stand for small models, the smallest first."""


def names() -> Iterable[str]:
    """The smallest architecture of each file of timm's models, as its name tells."""
    import timm

    for family in timm.list_modules():
        models = timm.list_models(module=family)
        if models:
            yield min(models, key=_size_by_name)


def _size_by_name(name: str) -> tuple[int, int, str]:
    words = re.split(r"[_.]", name)
    ranks = [_SIZES.index(word) for word in words if word in _SIZES]
    return min(ranks, default=len(_SIZES)), len(name), name


@cache
def _picture(name: str) -> tuple[int, ...]:
    import timm

    shape: tuple[int, ...] = timm.get_pretrained_cfg(name).input_size
    return shape


def build(name: str) -> Any:
    import timm

    torch.manual_seed(0)
    with torch.device("meta"):
        parameters = sum(weight.numel() for weight in timm.create_model(name, pretrained=False).parameters())
    if parameters > MOST_PARAMETERS:
        raise ValueError(f"{name} has {parameters / 1e6:.0f} M parameters, too many to draw")
    model: nn.Module = timm.create_model(name, pretrained=False).eval()
    return model, (torch.randn(1, *_picture(name)),)
