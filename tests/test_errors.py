"""Every error has a known code and a next step, and survives being passed between processes."""

import pickle
import re

import pytest

from torchport import errors
from torchport.errors import CODES, CaptureError, ParityError, TorchportError


def test_an_error_carries_its_facts() -> None:
    error = CaptureError("TP0203", "outputs differ", where="encoder at m.py:3", fix="look there")
    assert isinstance(error, TorchportError)
    assert (error.code, error.message) == ("TP0203", "outputs differ")
    assert (error.where, error.fix) == ("encoder at m.py:3", "look there")
    assert str(error) == "TP0203: outputs differ (encoder at m.py:3)"


def test_the_next_step_falls_back_to_the_general_advice() -> None:
    assert CaptureError("TP0203", "outputs differ").fix == CODES["TP0203"].fix


def test_an_unknown_code_is_a_programming_error() -> None:
    with pytest.raises(KeyError, match="TP9999"):
        CaptureError("TP9999", "no such code")


def test_errors_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(CaptureError("TP0203", "outputs differ", fix="look there")))
    assert (error.code, error.message, error.where, error.fix) == (
        "TP0203",
        "outputs differ",
        None,
        "look there",
    )


def test_a_divergence_is_an_assertion_error_too() -> None:
    assert issubclass(ParityError, AssertionError)


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_well_formed_and_fully_explained(code: str) -> None:
    assert re.fullmatch(r"TP\d{4}", code)
    title, meaning, fix = CODES[code]
    assert title and not title.endswith(".")
    assert meaning.endswith(".") and fix.endswith(".")


def test_the_docstring_draws_every_exception() -> None:
    for name in errors.__all__:
        if name.endswith("Error"):
            assert name in (errors.__doc__ or "")
