"""Tensors as Python text, for scripts that hold their own inputs."""

from __future__ import annotations

import torch
from torch import Tensor

INLINE = 256
"""Numbers that a script holds itself; more are in a file beside it."""


def tensor_text(tensor: Tensor) -> str:
    """An expression that gives the tensor again, to the last bit."""
    numbers = _numbers(tensor.detach().flatten().tolist(), tensor.dtype)
    return f"torch.tensor({numbers}, dtype={tensor.dtype}).reshape({list(tensor.shape)})"


def plain_text(tensor: Tensor) -> str | None:
    """A short expression for a tensor of ones, of zeros, or of 0, 1, 2 … 7 again and again; None for any other."""
    flat, shape = tensor.detach().cpu().flatten(), list(tensor.shape)
    for name, value in (("ones", 1), ("zeros", 0)):
        if bool((flat == value).all()):
            return f"torch.{name}({shape}, dtype={tensor.dtype})"
    if flat.is_floating_point() and bool((flat == counted(tensor).cpu().flatten()).all()):
        return f"(torch.arange({flat.numel()}) % 8).reshape({shape}).to({tensor.dtype})"
    return None


def counted(tensor: Tensor) -> Tensor:
    """0, 1, 2 … 7, and from 0 again, in the shape of a tensor."""
    count = torch.arange(tensor.numel(), device=tensor.device) % 8
    return count.reshape(tensor.shape).to(tensor.dtype)


def _numbers(values: list[float], dtype: torch.dtype) -> str:
    is_narrow = dtype not in (torch.float64, torch.complex64, torch.complex128)
    text = ", ".join(
        repr(float(f"{value:.9g}")) if is_narrow and isinstance(value, float) else repr(value)
        for value in values
    )
    return f"[{text}]".replace("nan", 'float("nan")').replace("inf", 'float("inf")')
