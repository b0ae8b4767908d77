"""What torch keeps whole and capture takes apart gives what torch gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torchport.capture.decompositions import DECOMPOSITIONS

X, Y = torch.linspace(-2, 2, 12).view(3, 4), torch.linspace(1, -3, 12).view(3, 4)
WINDOWS: list[tuple[str, tuple[Any, ...]]] = [
    (f"{name}_window.{form}", given)
    for name, forms in {
        "hamming": {
            "default": [()],
            "periodic": [(True,), (False,)],
            "periodic_alpha": [(False, 0.6)],
            "periodic_alpha_beta": [(True, 0.6, 0.3)],
        },
        "blackman": {"default": [()], "periodic": [(True,), (False,)]},
        "bartlett": {"default": [()], "periodic": [(True,), (False,)]},
        "kaiser": {"default": [()], "periodic": [(True,), (False,)], "beta": [(False, 5.0)]},
    }.items()
    for form, several in forms.items()
    for given in several
]


def overload(name: str) -> torch._ops.OpOverload:
    packet, _, form = name.partition(".")
    found: torch._ops.OpOverload = getattr(getattr(torch.ops.aten, packet), form)
    return found


@pytest.mark.parametrize(("name", "given"), WINDOWS)
@pytest.mark.parametrize("length", [0, 1, 2, 5, 400])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_windows_are_those_of_torch(
    name: str, given: tuple[Any, ...], length: int, dtype: torch.dtype
) -> None:
    operation = overload(name)
    expected = operation(length, *given, dtype=dtype)
    found = DECOMPOSITIONS[operation](length, *given, dtype=dtype)
    assert found.dtype == dtype and found.shape == expected.shape
    torch.testing.assert_close(found, expected, rtol=0, atol=8 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("given", [(0, 5), (1, 4.5, 0.5), (5, 0, -1), (0, 5, 2)])
def test_a_range_has_its_end(given: tuple[float, ...]) -> None:
    operation = overload("range.step")
    assert torch.equal(DECOMPOSITIONS[operation](*given), operation(*given))


@pytest.mark.parametrize("p", [0, 1, 2, 3, float("inf")])
def test_a_distance_is_the_norm_of_the_difference(p: float) -> None:
    operation = overload("dist.default")
    assert torch.equal(DECOMPOSITIONS[operation](X, Y, p), operation(X, Y, p))
