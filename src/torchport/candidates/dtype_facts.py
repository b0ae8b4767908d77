"""Facts about a dtype that a model takes into its arithmetic, kept while it runs in float64: an epsilon, the smallest
number that a mask is filled with."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from torchport.candidates.probing import WatchedCall
from torchport.capture.torch_internals import eps_of_rms_norm

_FINFO = torch.finfo


class DtypeOfCall:
    """The dtype that the weights of the call in progress have in the model: its own, or those of the call around it."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.current = dtype
        self._by_call: dict[str | None, torch.dtype] = {None: dtype}

    def enter(self, call: WatchedCall, dtype: torch.dtype | None) -> None:
        self.current = self._by_call[call.name] = dtype or self._by_call[call.parent]

    def leave(self, call: WatchedCall) -> None:
        self.current = self._by_call[call.parent]


@contextmanager
def facts_of(dtypes: DtypeOfCall) -> Iterator[None]:
    """Within, code of this thread that asks for the facts of float64 is given those of the call's dtype."""
    before = torch.finfo
    torch.finfo = _facts_for(threading.get_ident(), dtypes, before)  # type: ignore[misc, assignment]
    try:
        with _OwnEps(dtypes):
            yield
    finally:
        torch.finfo = before  # type: ignore[misc]


def _facts_for(thread: int, dtypes: DtypeOfCall, before: Any) -> Any:
    """A stand-in for `torch.finfo`; other threads, and whoever asks for another dtype, see no difference."""

    class FinfoOfCall(type):
        def __call__(cls, asked: torch.dtype | None = None) -> Any:
            is_meant = threading.get_ident() == thread and asked == torch.float64
            return before(dtypes.current) if is_meant else before() if asked is None else before(asked)

        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, _FINFO)

    return FinfoOfCall("finfo", (), {})


class _OwnEps(TorchFunctionMode):
    """A norm without an eps has the one that torch takes in the model's dtype: of float32 for narrower ones, too."""

    def __init__(self, dtypes: DtypeOfCall) -> None:
        super().__init__()
        self.dtypes = dtypes

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func not in (torch.nn.functional.rms_norm, torch.rms_norm):
            return func(*args, **(kwargs or {}))
        given = dict(
            zip(("input", "normalized_shape", "weight", "eps"), args, strict=False), **(kwargs or {})
        )
        if given.get("eps") is None:
            given["eps"] = eps_of_rms_norm(self.dtypes.current)
        return func(**given)
