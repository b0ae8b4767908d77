"""Settings of torch that a backend may change, and eager PyTorch, the reference, would then compute by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableSet
from contextlib import contextmanager
from typing import Any

import torch

_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "the precision of float32 products": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    "the gradient mode": (torch.is_grad_enabled, torch._C._set_grad_enabled),
    "deterministic algorithms": (
        torch.get_deterministic_debug_mode,
        torch.set_deterministic_debug_mode,
    ),
}


@contextmanager
def settings_kept(changed: MutableSet[str]) -> Iterator[None]:
    """Afterwards the settings are as before; `changed` is given the names of those that were not."""
    before = {name: get() for name, (get, _) in _SETTINGS.items()}
    try:
        yield
    finally:
        for name, (get, put) in _SETTINGS.items():
            if get() != before[name]:
                changed.add(name)
                put(before[name])
