"""An error is a few lines with a next step, or one JSON object; never a bare traceback."""

import json
from collections.abc import Callable

import pytest

from torchport.errors import CODES, CaptureError
from torchport.spelling import as_flags

from .conftest import Answer, Behind

Torchport = Callable[..., Answer]
PORT = ("port", "m.py:net", "--to", "candle")


@pytest.fixture
def broken(behind: Behind) -> Behind:
    behind.result = CaptureError("TP0203", "outputs differ", where="head at m.py:3", fix="look")
    return behind


def test_a_coded_error_is_text_on_stderr(torchport: Torchport, broken: Behind) -> None:
    answer = torchport(*PORT)
    assert answer.code == 2 and answer.stdout == ""
    assert answer.stderr.splitlines() == [
        "working",
        "error TP0203: outputs differ",
        "  where: head at m.py:3",
        "  next:  look",
        "  more:  torchport explain TP0203",
    ]


def test_a_coded_error_is_an_object_with_json(torchport: Torchport, broken: Behind) -> None:
    answer = torchport(*PORT, "--json")
    assert answer.code == 2
    assert json.loads(answer.stdout) == {
        "schema": 1,
        "status": "error",
        "error": {
            "code": "TP0203",
            "message": "outputs differ",
            "where": "head at m.py:3",
            "fix": "look",
        },
    }


@pytest.mark.parametrize("place", ["before", "after"])
def test_debug_shows_the_traceback_wherever_it_stands(
    torchport: Torchport, broken: Behind, place: str
) -> None:
    command = ("--debug", *PORT) if place == "before" else (*PORT, "--debug")
    answer = torchport(*command)
    assert answer.code == 2
    assert "Traceback" in answer.stderr and "error TP0203" in answer.stderr


def test_an_unexpected_error_names_debug(torchport: Torchport, behind: Behind) -> None:
    behind.result = ZeroDivisionError("division by zero")
    answer = torchport(*PORT)
    assert answer.code == 2
    assert "error TP0001: ZeroDivisionError: division by zero" in answer.stderr
    assert "--debug" in answer.stderr and "Traceback" not in answer.stderr
    assert "ZeroDivisionError" in torchport(*PORT, "--debug").stderr


def test_an_unexpected_error_is_an_object_with_json(torchport: Torchport, behind: Behind) -> None:
    behind.result = ZeroDivisionError("division by zero")
    assert json.loads(torchport(*PORT, "--json").stdout)["error"]["code"] == "TP0001"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("port",), "SPEC"),
        (("port", "--to", "candle"), "SPEC"),
        ((*PORT, "--checks", "some"), "'some'"),
        ((*PORT, "--rtol", "-1"), "--rtol"),
        (("sing",), "'sing'"),
        (("--sing",), "--sing"),
    ],
)
def test_wrong_usage_is_a_coded_error(
    torchport: Torchport, behind: Behind, command: tuple[str, ...], said: str
) -> None:
    answer = torchport(*command)
    assert answer.code == 2 and answer.stdout == ""
    assert "error TP0801" in answer.stderr and said in answer.stderr and "--help" in answer.stderr
    error = json.loads(torchport(*command, "--json").stdout)["error"]
    assert error["code"] == "TP0801"
    assert behind.called is None


@pytest.mark.parametrize("code", CODES)
def test_explain_knows_every_code(torchport: Torchport, code: str) -> None:
    answer = torchport("explain", code.lower())
    assert answer.code == 0
    with as_flags():
        said = CODES[code].spelled()
    for part in (code, *said):
        assert part in answer.stdout
    assert json.loads(torchport("explain", code, "--json").stdout)["title"] == CODES[code].title


def test_explain_without_a_code_lists_them(torchport: Torchport) -> None:
    answer = torchport("explain")
    assert [line[:6] for line in answer.stdout.splitlines()] == list(CODES)


def test_explain_of_an_unknown_code_names_its_neighbours(torchport: Torchport) -> None:
    answer = torchport("explain", "TP203")
    assert answer.code == 2
    assert "TP0802" in answer.stderr and "TP0203" in answer.stderr


def test_explain_of_nonsense_says_how_to_list_them(torchport: Torchport) -> None:
    answer = torchport("explain", "zzz")
    assert answer.code == 2 and "torchport explain" in answer.stderr
