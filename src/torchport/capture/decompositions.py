"""Operations that torch keeps whole, and that are taken apart here, so that no target needs to know them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch


def _as_strided(
    x: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> torch.Tensor:
    """Elements by their places in memory, as a graph has no memory: those of a tensor that lies in it without gaps."""
    flat = _in_order_of_memory(x)
    if flat is None:
        return NotImplemented  # type: ignore[no-any-return]
    place = torch.full((), storage_offset or 0, dtype=torch.int64, device=x.device)
    for axis, (length, step) in enumerate(zip(size, stride, strict=True)):
        along = torch.arange(length, device=x.device) * step
        place = place + along.reshape([-1] + [1] * (len(size) - axis - 1))
    return flat[place]


def _in_order_of_memory(x: torch.Tensor) -> torch.Tensor | None:
    """The elements in the order in which they lie in memory; None if there are gaps, or others before them."""
    if x.storage_offset() != 0:
        return None
    if x.is_contiguous():
        return x.reshape(-1)
    if not all(isinstance(number, int) for number in (*x.shape, *x.stride())):
        return None
    strides = x.stride()
    turned = x.permute(sorted(range(x.ndim), key=lambda axis: -strides[axis]))
    return turned.reshape(-1) if turned.is_contiguous() else None


def _window(
    shape: Callable[..., torch.Tensor], *, periodic: bool | None = None
) -> Callable[..., torch.Tensor]:
    """A window, as torch computes it: a periodic one is the beginning of one that is longer by one."""

    def made(length: int, *given: Any, dtype: Any = None, device: Any = None, **_: Any) -> torch.Tensor:
        is_periodic, *shaped = (periodic, *given) if periodic is not None else given
        dtype = dtype or torch.get_default_dtype()
        if length < 2:
            return torch.ones(length, dtype=dtype, device=device)
        whole = length + 1 if is_periodic else length
        steps = torch.arange(whole, dtype=dtype, device=device)
        return shape(steps, whole - 1, *shaped)[:length]

    return made


def _hamming(steps: torch.Tensor, last: int, alpha: float = 0.54, beta: float = 0.46) -> torch.Tensor:
    return (steps * (2 * math.pi / last)).cos() * -beta + alpha


def _blackman(steps: torch.Tensor, last: int) -> torch.Tensor:
    turns = steps * (math.pi / last)
    return (turns * 4).cos() * 0.08 - (turns * 2).cos() * 0.5 + 0.42


def _bartlett(steps: torch.Tensor, last: int) -> torch.Tensor:
    rising = steps * (2 / last)
    return torch.minimum(rising, 2 - rising)


def _kaiser(steps: torch.Tensor, last: int, beta: float = 12.0) -> torch.Tensor:
    along = steps * (2 / last) - 1
    highest = torch.full((), beta, dtype=steps.dtype, device=steps.device)
    heights = torch.special.i0(beta * (1 - along * along).clamp(min=0).sqrt())
    return cast(torch.Tensor, heights / torch.special.i0(highest))


def _dist(x: torch.Tensor, y: torch.Tensor, p: float = 2.0) -> torch.Tensor:
    return cast(torch.Tensor, torch.linalg.vector_norm(x - y, p))


def _range(
    start: float, end: float, step: float = 1, *, dtype: Any = None, device: Any = None, **_: Any
) -> torch.Tensor:
    """Numbers up to the end, and the end too, which `arange` leaves out."""
    count = math.floor((end - start) / step) + 1
    whole = torch.arange(count, dtype=dtype or torch.get_default_dtype(), device=device)
    return whole * step + start


_aten = torch.ops.aten
DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    _aten.as_strided.default: _as_strided,
    _aten.dist.default: _dist,
    _aten.range.default: _range,
    _aten.range.step: _range,
    _aten.hamming_window.default: _window(_hamming, periodic=True),
    _aten.hamming_window.periodic: _window(_hamming),
    _aten.hamming_window.periodic_alpha: _window(_hamming),
    _aten.hamming_window.periodic_alpha_beta: _window(_hamming),
    _aten.blackman_window.default: _window(_blackman, periodic=True),
    _aten.blackman_window.periodic: _window(_blackman),
    _aten.bartlett_window.default: _window(_bartlett, periodic=True),
    _aten.bartlett_window.periodic: _window(_bartlett),
    _aten.kaiser_window.default: _window(_kaiser, periodic=True),
    _aten.kaiser_window.periodic: _window(_kaiser),
    _aten.kaiser_window.beta: _window(_kaiser),
}
