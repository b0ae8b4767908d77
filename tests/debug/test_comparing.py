"""`compare_tensors`: the cases that tools get wrong."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from torchport.debug.comparing import ComparisonConfig, compare_tensors
from torchport.errors import UsageError

nan, inf = math.nan, math.inf


def test_equal_tensors_pass_with_no_error() -> None:
    x = torch.randn(4, 5)
    found = compare_tensors(x, x.clone())
    assert found.passed and found.reason is None
    assert found.max_absolute_error == found.mean_relative_error == found.rmse == 0.0


def test_all_measures_are_those_of_the_definitions() -> None:
    a, b = torch.randn(300, 7), torch.randn(300, 7)
    found = compare_tensors(a, b)
    error = (b.double() - a.double()).abs()
    assert found.max_absolute_error == pytest.approx(float(error.max()))
    assert found.mean_absolute_error == pytest.approx(float(error.mean()))
    assert found.max_relative_error == pytest.approx(float((error / a.double().abs()).max()))
    assert found.mean_relative_error == pytest.approx(float((error / a.double().abs()).mean()))
    assert found.rmse == pytest.approx(float(error.square().mean().sqrt()))
    assert found.worst_index == tuple(int(i) for i in torch.unravel_index(error.argmax(), error.shape))
    assert not found.passed and found.mismatch_percentage == 100.0


@pytest.mark.parametrize("value", [torch.tensor(1.5), torch.tensor(3), torch.tensor(True)])
def test_a_tensor_without_dimensions_is_compared(value: Tensor) -> None:
    assert compare_tensors(value, value.clone()).passed
    other = ~value if value.dtype == torch.bool else value + 1
    found = compare_tensors(value, other)
    assert not found.passed and found.worst_index == ()


def test_empty_tensors_are_equal_if_their_shapes_are() -> None:
    assert compare_tensors(torch.empty(0, 3), torch.empty(0, 3)).passed
    assert not compare_tensors(torch.empty(0, 3), torch.empty(3, 0)).passed


def test_nan_at_the_same_places_is_equal() -> None:
    a = torch.tensor([1.0, nan, 2.0])
    found = compare_tensors(a, a.clone())
    assert found.passed and found.nan_count == 1 and found.nan_places == ((1,),)


def test_nan_on_one_side_fails_whatever_is_allowed() -> None:
    config = ComparisonConfig(atol=1e9, allowed_mismatch=100.0)
    found = compare_tensors(torch.zeros(2, 3), torch.tensor([[0.0, 0, 0], [0, nan, 0]]), config)
    assert not found.passed and found.nan_places == ((1, 1),) and "NaN" in str(found.reason)


def test_infinity_must_have_its_sign_and_place() -> None:
    a = torch.tensor([inf, -inf, 1.0])
    assert compare_tensors(a, a.clone()).passed
    found = compare_tensors(a, torch.tensor([inf, inf, 1.0]))
    assert not found.passed and found.inf_count == 2 and found.inf_places == ((0,), (1,))


def test_large_numbers_are_compared_by_their_relative_error() -> None:
    a, b = torch.tensor([1e6], dtype=torch.float64), torch.tensor([1e6 + 1], dtype=torch.float64)
    found = compare_tensors(a, b, ComparisonConfig(rtol=1e-5, atol=0.0))
    assert found.passed and found.max_absolute_error == 1.0 and found.max_relative_error == 1e-6
    assert not compare_tensors(a, b, ComparisonConfig(rtol=1e-7, atol=0.0)).passed


def test_large_whole_numbers_are_not_rounded() -> None:
    a = torch.tensor([2**40, 2**62])
    found = compare_tensors(a, a + 1)
    assert not found.passed and found.max_absolute_error == 1.0 and found.mismatch_percentage == 100.0
    assert compare_tensors(a, a.clone()).passed


def test_complex_numbers_that_differ_in_the_imaginary_part_differ() -> None:
    a = torch.randn(8, dtype=torch.complex64)
    found = compare_tensors(a, a + 0.5j)
    assert not found.passed and found.max_absolute_error == pytest.approx(0.5, rel=1e-5)


def test_bools_must_be_equal() -> None:
    a = torch.tensor([True, False, True, True])
    found = compare_tensors(a, torch.tensor([True, True, True, True]))
    assert not found.passed and found.mismatch_percentage == 25.0 and found.worst_index == (1,)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (torch.zeros(3, 2), "shape"),
        (torch.zeros(6), "shape"),
        (torch.zeros(2, 3, dtype=torch.float64), "dtype float64"),
        (torch.zeros(2, 3, dtype=torch.int64), "dtype int64"),
        (torch.zeros(2, 3, device="meta"), "meta"),
    ],
)
def test_what_cannot_be_compared_fails_with_the_reason(other: Tensor, said: str) -> None:
    found = compare_tensors(torch.zeros(2, 3), other)
    assert not found.passed and said in str(found.reason) and math.isnan(found.rmse)


def test_a_share_of_the_elements_may_be_outside() -> None:
    a, b = torch.zeros(100), torch.zeros(100)
    b[7] = 1.0
    assert not compare_tensors(a, b).passed
    assert compare_tensors(a, b, ComparisonConfig(allowed_mismatch=1.0)).passed
    b[8] = 1.0
    assert not compare_tensors(a, b, ComparisonConfig(allowed_mismatch=1.0)).passed


@pytest.mark.parametrize("wrong", [{"rtol": -1.0}, {"atol": nan}, {"allowed_mismatch": -1.0}, {"runs": 0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        ComparisonConfig(**wrong)  # type: ignore[arg-type]


def test_floats_of_one_byte_are_compared() -> None:
    one, other = (torch.tensor(values).to(torch.float8_e4m3fn) for values in ([1.0, 2.0], [1.0, 2.5]))
    assert compare_tensors(one, one).passed and not compare_tensors(one, other).passed
