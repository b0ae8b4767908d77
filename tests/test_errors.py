"""Every error has a known code and a next step, and survives being passed between processes."""

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torchport
from torchport import errors
from torchport.cli import main
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


class Noisy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda out: torchport.port(nn.Linear(4, 4), 4, target="torch", out=out), "args is of type int"),
        (lambda _: torchport.record(nn.Linear(4, 4), 4), "args is of type int"),
        (lambda _: torchport.record(nn.Linear(4, 4), {"x": torch.ones(4)}), "args is of type dict"),
        (
            lambda out: torchport.port(nn.Linear(4, 4), torch.ones(4), target="torch", out=out).check(
                atol="much"
            ),
            "atol is 'much'",
        ),
        (
            lambda _: torchport.assert_parity(nn.ReLU(), nn.ReLU(), torch.ones(4), rtol=True),
            "rtol is True",
        ),
    ],
)
def test_what_python_gives_wrongly_is_named_as_an_argument(
    call: Callable[[Path], Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(TorchportError) as caught:
        call(tmp_path / "port")
    assert caught.value.code == "TP0801" and says in caught.value.message and caught.value.fix


@pytest.mark.parametrize("code", CODES)
def test_no_error_from_python_names_a_flag_that_python_has_an_argument_for(code: str) -> None:
    both = ("out", "force", "allow-random", "checks", "dynamic", "rtol", "atol", "model")
    error = TorchportError(code, "what happened")
    assert "[[" not in str(error) + str(error.fix)
    said = re.sub("`[^`]*`", "", " ".join(CODES[code].spelled()))
    assert not any(f"--{flag}" in said for flag in both), "but for commands in full"


def test_one_error_names_arguments_in_python_and_flags_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TorchportError) as caught:
        torchport.port(Noisy(), torch.ones(4), out=tmp_path / "port")
    fix = str(caught.value.fix)
    assert caught.value.code == "TP0204" and "allow_random=True" in fix and "--" not in fix
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(
        "import torch\n\nclass Noisy(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x + torch.rand_like(x)\n\ndef net():\n    return Noisy(), torch.ones(4)\n"
    )
    assert main(["port", "m.py:net"]) == 2
    said = capsys.readouterr().err
    assert "--allow-random" in said and "allow_random" not in said
    assert "where: m.py:5\n" in said, "and the place is a short path"


def test_a_target_that_cannot_draw_does_not_advise_it(tmp_path: Path) -> None:
    with pytest.raises(TorchportError) as caught:
        torchport.port(Noisy(), torch.ones(4), target="torch", out=tmp_path / "port")
    assert caught.value.code == "TP0204" and "allow" not in str(caught.value.fix)
