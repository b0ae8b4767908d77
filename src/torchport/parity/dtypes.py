"""Facts about a dtype, given as torch.dtype or by name: its class, its rounding step and its tolerances.

Only `by_name` imports torch, so that files can be compared without it; a test compares the table with torch.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import torch

DtypeClass = Literal["bool", "int", "float", "complex"]


class Tolerances(NamedTuple):
    rtol: float
    atol: float


WITH_TRUTH = ("float16", "bfloat16", "float32")
"""The floats of which float64 tells the truth."""
WIDEST = ("float64", "complex128")
"""Those that are as wide as the truth is, so that it is not known of them."""
EXACT = Tolerances(0.0, 0.0)


class DtypeFacts(NamedTuple):
    """The size of an element and, for floats and the parts of complex numbers, what torch.finfo says."""

    kind: DtypeClass
    itemsize: int
    eps: float = 0.0
    smallest_normal: float = 0.0
    tolerances: Tolerances | None = None
    """The defaults of torch.testing.assert_close, which does not export them; None if it has none."""


_HALF, _SINGLE, _DOUBLE = Tolerances(1e-3, 1e-5), Tolerances(1.3e-6, 1e-5), Tolerances(1e-7, 1e-7)
DTYPES = {
    "bool": DtypeFacts("bool", 1),
    "uint8": DtypeFacts("int", 1),
    "int8": DtypeFacts("int", 1),
    "uint16": DtypeFacts("int", 2),
    "int16": DtypeFacts("int", 2),
    "uint32": DtypeFacts("int", 4),
    "int32": DtypeFacts("int", 4),
    "uint64": DtypeFacts("int", 8),
    "int64": DtypeFacts("int", 8),
    "float8_e4m3fn": DtypeFacts("float", 1, 2.0**-3, 2.0**-6),
    "float8_e4m3fnuz": DtypeFacts("float", 1, 2.0**-3, 2.0**-7),
    "float8_e5m2": DtypeFacts("float", 1, 2.0**-2, 2.0**-14),
    "float8_e5m2fnuz": DtypeFacts("float", 1, 2.0**-3, 2.0**-15),
    "float16": DtypeFacts("float", 2, 2.0**-10, 2.0**-14, _HALF),
    "bfloat16": DtypeFacts("float", 2, 2.0**-7, 2.0**-126, Tolerances(1.6e-2, 1e-5)),
    "float32": DtypeFacts("float", 4, 2.0**-23, 2.0**-126, _SINGLE),
    "float64": DtypeFacts("float", 8, 2.0**-52, 2.0**-1022, _DOUBLE),
    "complex32": DtypeFacts("complex", 4, 2.0**-10, 2.0**-14, _HALF),
    "complex64": DtypeFacts("complex", 8, 2.0**-23, 2.0**-126, _SINGLE),
    "complex128": DtypeFacts("complex", 16, 2.0**-52, 2.0**-1022, _DOUBLE),
}


def class_of(dtype: object) -> DtypeClass:
    return DTYPES[name_of(dtype)].kind


def comparable(golden: object, candidate: object) -> bool:
    """Whether two dtypes are of one class. A candidate may also write bool as uint8: some targets have no bool."""
    if class_of(golden) == class_of(candidate):
        return True
    return (name_of(golden), name_of(candidate)) == ("bool", "uint8")


def rounding_step(dtype: object) -> float:
    """The largest relative error of one rounding: half the distance from 1 to the next number."""
    return DTYPES[name_of(dtype)].eps / 2


def least_step(dtype: object) -> float:
    """The distance from 0 to the next number."""
    known = DTYPES[name_of(dtype)]
    return known.smallest_normal * known.eps


def usual_tolerances(golden: object, candidate: object) -> Tolerances:
    """The tolerances that torch.testing.assert_close would use: the looser defaults of the two dtypes."""
    of_golden, of_candidate = (_tolerances_of(dtype) for dtype in (golden, candidate))
    return Tolerances(max(of_golden.rtol, of_candidate.rtol), max(of_golden.atol, of_candidate.atol))


@cache
def name_of(dtype: object) -> str:
    """The name of a dtype, which may be a name already."""
    return str(dtype).removeprefix("torch.")


def by_name(name: str) -> torch.dtype:
    """The torch.dtype of a name."""
    import torch

    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype


def _tolerances_of(dtype: object) -> Tolerances:
    if class_of(dtype) in ("bool", "int"):
        return EXACT
    # torch has no default for the 8-bit floats; one rounding step is the least that makes sense.
    return DTYPES[name_of(dtype)].tolerances or Tolerances(rounding_step(dtype), 1e-5)
