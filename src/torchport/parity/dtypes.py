"""What parity needs to know of a dtype: its class, its rounding step and its usual tolerances."""

from typing import Literal, NamedTuple

import torch

DtypeClass = Literal["bool", "int", "float", "complex"]


class Tolerances(NamedTuple):
    rtol: float
    atol: float


# Those of torch.testing.assert_close, which does not export them; a test holds the two together.
_TOLERANCES = {
    torch.float16: Tolerances(1e-3, 1e-5),
    torch.bfloat16: Tolerances(1.6e-2, 1e-5),
    torch.float32: Tolerances(1.3e-6, 1e-5),
    torch.float64: Tolerances(1e-7, 1e-7),
    torch.complex32: Tolerances(1e-3, 1e-5),
    torch.complex64: Tolerances(1.3e-6, 1e-5),
    torch.complex128: Tolerances(1e-7, 1e-7),
}
EXACT = Tolerances(0.0, 0.0)


def class_of(dtype: torch.dtype) -> DtypeClass:
    if dtype == torch.bool:
        return "bool"
    if dtype.is_complex:
        return "complex"
    return "float" if dtype.is_floating_point else "int"


def comparable(golden: torch.dtype, candidate: torch.dtype) -> bool:
    """Whether two dtypes are of a class; targets without a bool write it as uint8."""
    if class_of(golden) == class_of(candidate):
        return True
    return golden == torch.bool and candidate == torch.uint8


def rounding_step(dtype: torch.dtype) -> float:
    """The largest relative error of one rounding: half the distance from 1 to the next number."""
    return torch.finfo(dtype).eps / 2


def least_step(dtype: torch.dtype) -> float:
    """The distance from 0 to the next number."""
    info = torch.finfo(dtype)
    return info.smallest_normal * info.eps


def usual_tolerances(golden: torch.dtype, candidate: torch.dtype) -> Tolerances:
    """What torch.testing.assert_close would use: the looser of the two dtypes' defaults."""
    of_golden, of_candidate = (_tolerances_of(dtype) for dtype in (golden, candidate))
    return Tolerances(max(of_golden.rtol, of_candidate.rtol), max(of_golden.atol, of_candidate.atol))


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def by_name(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype


def _tolerances_of(dtype: torch.dtype) -> Tolerances:
    if class_of(dtype) in ("bool", "int"):
        return EXACT
    # The 8-bit floats have no default in torch; one rounding step is the least that makes sense.
    return _TOLERANCES.get(dtype) or Tolerances(rounding_step(dtype), 1e-5)
