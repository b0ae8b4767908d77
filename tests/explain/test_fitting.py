"""A number is found by what it leaves of the error, and said with no more digits than it takes."""

import math

import pytest

from torchport.explain.fitting import fit


@pytest.mark.parametrize("number", [1e-12, 1e-5, 0.0173, 0.25])
def test_the_number_that_leaves_nothing_is_found_as_someone_wrote_it(number: float) -> None:
    found = fit(lambda tried: abs(math.log(tried / number)) ** 2, (1e-14, 1.0))
    assert found.number == number
    assert found.left < 1e-6


def test_a_number_that_cannot_be_rounded_has_four_digits() -> None:
    found = fit(lambda tried: abs(math.log(tried / 0.123456)), (1e-2, 1.0))
    assert found.number == 0.1235
    assert found.left < 1e-6


def test_where_nothing_fits_all_is_left() -> None:
    assert fit(lambda _: 1.0, (1e-4, 1e4)).left == 1.0
