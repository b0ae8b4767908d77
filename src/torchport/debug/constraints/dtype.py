"""The dtypes that hardware has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

import torch

from torchport.debug.constraints.base import CheckedGraph, Constraint, Found
from torchport.errors import UsageError
from torchport.parity.dtypes import name_of

_KNOWN = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}


class DtypeConstraint(Constraint):
    """Every tensor, inputs and weights included, has one of `allowed_dtypes`: `"float32"`, `"torch.float32"` or
    `torch.float32`."""

    name = "dtype"

    def __init__(self, allowed_dtypes: Iterable[str | torch.dtype]) -> None:
        if isinstance(allowed_dtypes, str | torch.dtype):
            allowed_dtypes = [allowed_dtypes]
        self.allowed = frozenset(dtype_of(one) for one in allowed_dtypes)
        if not self.allowed:
            raise UsageError("TP1005", "no dtype is allowed, so that nothing could run")

    def check(self, graph: CheckedGraph) -> Iterator[Found]:
        for node in graph.nodes:
            for dtype in dict.fromkeys(tensor.dtype for tensor in node.tensors):
                if dtype not in self.allowed:
                    yield self.violated_by(node, f"{name_of(dtype)} is not among {self._allowed_names()}")

    def _allowed_names(self) -> str:
        return ", ".join(sorted(name_of(dtype) for dtype in self.allowed))


def dtype_of(given: str | torch.dtype) -> torch.dtype:
    if isinstance(given, torch.dtype):
        return given
    known = _KNOWN.get(given.removeprefix("torch.")) if isinstance(given, str) else None
    if known is None:
        close = difflib.get_close_matches(str(given).removeprefix("torch."), _KNOWN, n=1)
        fix = f"Did you mean {close[0]}?" if close else None
        raise UsageError("TP1005", f"torch has no dtype {given!r}", fix=fix)
    return known
