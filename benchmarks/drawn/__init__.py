"""Architectures of timm and transformers as SPECs, each in the smallest size that builds, with random weights.

`benchmarks.drawn:timm__resnet18`, `benchmarks.drawn:hf__BertModel`. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import small_timm, small_transformers

SOURCES = {"timm": small_timm, "hf": small_transformers}


def names() -> list[str]:
    """Every architecture that can be drawn."""
    return [f"{source}__{name}" for source, module in SOURCES.items() for name in module.names()]


def __getattr__(name: str) -> Callable[[], Any]:
    source, separator, architecture = name.partition("__")
    if not separator or source not in SOURCES:
        raise AttributeError(name)
    return lambda: SOURCES[source].build(architecture)
