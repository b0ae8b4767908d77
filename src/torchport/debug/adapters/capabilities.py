"""What an accelerator can run, as its data sheet would say, and the constraints that follow from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

from torchport.arithmetic.classes import find_arithmetic
from torchport.debug.adapters.limits import AllowedOps, AnyLayout, FixedShapes, InferenceOnly
from torchport.debug.constraints import (
    Constraint,
    DtypeConstraint,
    LayoutConstraint,
    MemoryConstraint,
    ShapeConstraint,
    UnsupportedOpsConstraint,
)
from torchport.debug.constraints.dtype import dtype_of
from torchport.errors import UsageError
from torchport.parity.dtypes import name_of

_LAYOUTS = ("contiguous", "channels_last", "channels_last_3d")


@dataclass(frozen=True)
class AcceleratorCapabilities:
    """What is not given is not limited."""

    name: str
    """A word of small letters, digits and underscores; torch.compile knows the adapter as `torchport_NAME`."""
    dtypes: frozenset[str] | None = None
    """Names, or torch dtypes, that tensors may have."""
    alignment: int = 1
    """What the last size of a tensor must be a multiple of."""
    max_tensor_bytes: int | None = None
    memory_bytes: int | None = None
    """What all tensors that are alive at a time may take."""
    layouts: frozenset[str] | None = None
    """Of "contiguous", "channels_last" and "channels_last_3d", those that tensors may have."""
    denied_operations: frozenset[str] = frozenset()
    """Full names, such as `aten.convolution.default`."""
    denied_patterns: frozenset[str] = frozenset()
    """Patterns of full names, such as `aten._softmax*`."""
    allowed_operations: frozenset[str] | None = None
    """Names or patterns; if given, whatever none of them matches is denied."""
    arithmetic: str = "float32"
    """The class of arithmetic that it promises, and is judged by: a name of `torchport.arithmetic.classes`. The default
    is float32 with sums in any order."""
    dynamic_shapes: bool = True
    """Whether a graph may have sizes that are known only when it runs."""
    training: bool = True
    """Whether it runs backward graphs."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise _wrong("name", self.name, "give a word of small letters, digits and underscores")
        find_arithmetic(self.arithmetic)
        for limit in ("alignment", "max_tensor_bytes", "memory_bytes"):
            _must_be_positive(limit, getattr(self, limit))
        if self.dtypes is not None:
            self._keep(dtypes=frozenset(map(_dtype_name, _words("dtypes", self.dtypes))))
        if self.layouts is not None:
            self._keep(layouts=frozenset(map(_layout, _words("layouts", self.layouts))))
        if self.allowed_operations is not None:
            self._keep(allowed_operations=frozenset(_words("allowed_operations", self.allowed_operations)))
        for field in ("denied_operations", "denied_patterns"):
            self._keep(**{field: frozenset(_words(field, getattr(self, field)))})

    def _keep(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def constraints(self) -> list[Constraint]:
        """What every graph is held against before the accelerator runs it."""
        return [*self._of_tensors(), *self._of_operations()]

    def _of_tensors(self) -> Iterator[Constraint]:
        if self.alignment > 1:
            yield ShapeConstraint(alignment=self.alignment)
        if self.dtypes is not None:
            yield DtypeConstraint(allowed_dtypes=self.dtypes)
        if self.max_tensor_bytes is not None or self.memory_bytes is not None:
            yield MemoryConstraint(max_bytes=self.max_tensor_bytes, max_peak=self.memory_bytes)
        if self.layouts is not None:
            yield LayoutConstraint(*self.layouts) if len(self.layouts) == 1 else AnyLayout(self.layouts)

    def _of_operations(self) -> Iterator[Constraint]:
        if self.denied_operations or self.denied_patterns:
            yield UnsupportedOpsConstraint(sorted(self.denied_operations), sorted(self.denied_patterns))
        if self.allowed_operations is not None:
            yield AllowedOps(self.allowed_operations)
        if not self.dynamic_shapes:
            yield FixedShapes()
        if not self.training:
            yield InferenceOnly()

    def to_dict(self) -> dict[str, Any]:
        """For JSON: sets are sorted lists."""
        return {
            name: sorted(value) if isinstance(value, frozenset) else value
            for name, value in asdict(self).items()
        }


def _words(field: str, given: Any) -> Iterable[Any]:
    """A single word is taken for a set of words so often that it is refused rather than taken apart."""
    if isinstance(given, str | torch.dtype) or not isinstance(given, Iterable):
        raise _wrong(field, given, f"give a set, such as {{{str(given)!r}}}")
    return given


def _dtype_name(dtype: str | torch.dtype) -> str:
    return name_of(dtype_of(dtype))


def _layout(layout: str) -> str:
    if layout not in _LAYOUTS:
        raise _wrong("layouts", layout, f"give some of {', '.join(_LAYOUTS)}")
    return layout


def _must_be_positive(field: str, value: Any) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise _wrong(field, value, "give a whole number of at least 1")


def _wrong(field: str, value: object, fix: str) -> UsageError:
    return UsageError("TP1050", f"an accelerator's {field} cannot be {value!r}", fix=fix)
