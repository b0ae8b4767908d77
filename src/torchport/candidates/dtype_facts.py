"""Facts about a dtype that a model takes into its arithmetic, kept while it runs in float64: an epsilon, the smallest
number that a mask is filled with."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_FINFO = torch.finfo


@contextmanager
def facts_of(dtype: torch.dtype) -> Iterator[None]:
    """Within, code of this thread that asks for the facts of float64 is given those of `dtype`."""
    before = torch.finfo
    torch.finfo = _facts_for(threading.get_ident(), dtype, before)  # type: ignore[misc, assignment]
    try:
        with _OwnEps(dtype):
            yield
    finally:
        torch.finfo = before  # type: ignore[misc]


def _facts_for(thread: int, dtype: torch.dtype, before: Any) -> Any:
    """A stand-in for `torch.finfo`; other threads, and whoever asks for another dtype, see no difference."""

    class Facts(type):
        def __call__(cls, asked: torch.dtype | None = None) -> Any:
            is_meant = threading.get_ident() == thread and asked == torch.float64
            return before(dtype) if is_meant else before() if asked is None else before(asked)

        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, _FINFO)

    return Facts("finfo", (), {})


class _OwnEps(TorchFunctionMode):
    """A norm whose eps is that of its dtype has the eps of the dtype that it has in the model."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.eps = _FINFO(dtype).eps

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if func in (torch.nn.functional.rms_norm, torch.rms_norm):
            given |= dict(zip(("input", "normalized_shape", "weight", "eps"), args, strict=False))
            given["eps"] = self.eps if given.get("eps") is None else given["eps"]
            args = ()
        return func(*args, **given)
