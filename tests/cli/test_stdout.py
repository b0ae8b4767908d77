"""A stdout that takes nothing more is said so in a line, and ends no command in a traceback."""

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pytest

from .conftest import Answer, Behind

Torchport = Callable[..., Answer]
COMMANDS = [
    ("explain",),
    ("explain", "TP0001", "--json"),
    ("explain", "nothing", "--json"),
    ("cache",),
    ("bench", "--list"),
    ("--help",),
]
ENDS = pytest.mark.parametrize("command", COMMANDS, ids=" ".join)


class Full(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The sizes of what the user has built take long to be read."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CARGO_TARGET_DIR", raising=False)


@pytest.fixture
def stdout(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[TextIO], None]]:
    files: list[TextIO] = []

    def use(file: TextIO) -> None:
        files.append(file)
        monkeypatch.setattr(sys, "stdout", file)

    yield use
    for file in files:
        file.close()


@ENDS
def test_a_full_disk_behind_stdout_is_a_coded_error(
    torchport: Torchport, stdout: Callable[[TextIO], None], command: tuple[str, ...]
) -> None:
    stdout(open("/dev/full", "w"))  # noqa: SIM115 - the fixture closes it
    answer = torchport(*command)
    assert answer.code == 2 and answer.stderr.startswith(
        "error TP0330: stdout cannot be written: No space left"
    )
    assert "Traceback" not in answer.stderr


@ENDS
def test_a_reader_who_has_enough_is_told_nothing(
    torchport: Torchport, stdout: Callable[[TextIO], None], command: tuple[str, ...]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stdout(os.fdopen(writing, "w"))
    answer = torchport(*command)
    assert answer.code == 141 and answer.stderr == ""


def test_a_full_disk_elsewhere_is_not_blamed_on_stdout(torchport: Torchport, behind: Behind) -> None:
    behind.result = OSError(28, "No space left on device", "weights.bin")
    answer = torchport("port", "m.py:net", "--to", "candle")
    assert answer.code == 2 and "No space left on device: weights.bin" in answer.stderr


def test_a_broken_pipe_elsewhere_is_an_error(torchport: Torchport, behind: Behind) -> None:
    behind.result = BrokenPipeError(32, "Broken pipe")
    answer = torchport("port", "m.py:net", "--to", "candle")
    assert answer.code == 2 and "Broken pipe" in answer.stderr


def test_a_log_that_cannot_be_written_ends_no_work(
    torchport: Torchport, behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind.result = {"status": "pass"}
    monkeypatch.setattr(sys, "stderr", Full())
    answer = torchport("record", "m.py:net", "--name", "n", "--out", "out")
    assert answer.code == 0 and "pass" in answer.stdout


def test_what_comes_after_two_dashes_is_not_for_torchport(torchport: Torchport, behind: Behind) -> None:
    behind.result = ZeroDivisionError("division by zero")
    answer = torchport("port", "--to", "candle", "--", "m.py:net")
    assert answer.code == 2 and "ZeroDivisionError" in answer.stderr
    answer = torchport("port", "--to", "candle", "m.py:net", "--", "--json")
    assert answer.stdout == "" and "TP0801" in answer.stderr
