"""The dashboard from the command line: where it cannot open it says why, and on a real terminal it opens."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..report.tui import sample
from .conftest import Answer, Behind

Torchport = Callable[..., Answer]
PORT = ("port", "m.py:net", "--to", "candle", "--tui")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    sample.failing().report.write(tmp_path / "run" / "report.json")
    return tmp_path / "run"


def test_json_and_a_dashboard_do_not_go_together(torchport: Torchport, behind: Behind) -> None:
    answer = torchport(*PORT, "--json")
    assert answer.code == 2 and behind.called is None
    error = json.loads(answer.stdout)["error"]
    assert error["code"] == "TP0801" and "--tui and --json" in error["message"]


def test_without_a_terminal_nothing_is_begun(torchport: Torchport, behind: Behind, run: Path) -> None:
    for command in (PORT, ("tui", str(run))):
        answer = torchport(*command)
        assert answer.code == 2 and answer.stdout == ""
        assert "TP0801: the dashboard needs a terminal: not one: std" in answer.stderr
    assert behind.called is None


def test_without_textual_the_pip_line_is_given(
    torchport: Torchport, behind: Behind, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    for command in (PORT, ("tui", str(run))):
        answer = torchport(*command)
        assert answer.code == 2
        assert "TP0803" in answer.stderr and "pip install 'torchport[tui]'" in answer.stderr
    assert behind.called is None


def test_a_run_that_is_not_there_was_interrupted_or_is_cut_off_gives_a_message(
    torchport: Torchport, run: Path, tmp_path: Path
) -> None:
    def refused(path: Path) -> str:
        answer = torchport("tui", str(path))
        assert answer.code == 2 and answer.stdout == "" and "Traceback" not in answer.stderr
        return answer.stderr

    assert "TP0340" in refused(tmp_path / "nowhere")
    (tmp_path / "half" / "capture").mkdir(parents=True)
    assert "did not come to its verdict" in refused(tmp_path / "half")
    file = run / "report.json"
    file.write_text(file.read_text()[:-200])
    assert "TP0341" in refused(run)


ENTERED, LEFT = "\x1b[?1049h", "\x1b[?1049l"
"""What a terminal is told when a program takes the whole screen, and when it gives it back."""


class Terminal:
    """A program on a terminal of 80 by 24."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.seen = self.all = ""
        self.pid, self.screen = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm-256color", **environment})
            os.execv(sys.executable, [sys.executable, "-m", "torchport", *arguments])
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def until(self, text: str, seconds: float = 120) -> None:
        """Read until the screen has shown `text` since the last time."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, f"{text!r} is not in {self.seen[-2000:]!r}"
            if not self._read():
                assert text in self.seen, f"ended without {text!r}: {self.seen[-2000:]!r}"
        self.seen = self.seen.partition(text)[2]

    def press(self, keys: str) -> None:
        os.write(self.screen, keys.encode())

    def end(self) -> tuple[int, str]:
        """The exit code, and what was printed after the dashboard had closed."""
        while self._read():
            pass
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        printed = self.seen.rpartition(LEFT)[2]
        return os.waitstatus_to_exitcode(status), re.sub(r"\x1b\[[0-9;?<]*[a-zA-Z]", "", printed)

    def _read(self) -> bool:
        try:
            if not select.select([self.screen], [], [], 0.2)[0]:
                return True
            new = os.read(self.screen, 1 << 16)
        except OSError:  # How Linux tells that the other side is closed.
            return False
        self.all += (text := new.decode(errors="replace"))
        self.seen += text
        return bool(new)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_terminal(*arguments: str, **environment: str) -> Terminal:
        opened.append(Terminal(*arguments, **environment))
        return opened[-1]

    yield open_terminal
    for one in opened:
        if one.pid:
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
        os.close(one.screen)


@pytest.mark.slow
def test_a_run_opens_on_a_terminal_and_its_source_in_the_editor(
    terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    source, notes = tmp_path / "encoder.py", tmp_path / "notes"
    source.write_text("x = 1\n")
    editor = tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\ntest -t 0 && test -t 1 && echo "$@" > {notes}\n')
    editor.chmod(0o755)
    report = sample.passing().report
    layers = tuple(layer.model_copy(update={"source": f"{source}:7"}) for layer in report.layers)
    report.model_copy(update={"layers": layers}).write(tmp_path / "run" / "report.json")
    shown = terminal("tui", str(tmp_path / "run"), EDITOR=str(editor))
    shown.until("20 layers, 0 failing")
    shown.press("e")
    shown.until(LEFT)
    shown.until(ENTERED)
    shown.until("20 layers, 0 failing")
    assert notes.read_text() == f"+7 {source}\n"
    shown.press("q")
    code, printed = shown.end()
    assert code == 0 and printed.strip() == ""


NOISY = """
import os, subprocess, sys
import torch

def net():
    print("printed"); os.write(1, b"raw one\\n"); os.write(2, b"raw two\\n"); os.system("echo by a child")
    print("typed:", repr(sys.stdin.read()))
    return torch.nn.Linear(2, 2), ("no tensor",)

def slow():
    subprocess.run(["sleep", "300"])
"""


@pytest.mark.slow
def test_an_error_is_shown_and_printed_again_and_nothing_draws_over_the_dashboard(
    terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    shown = terminal(
        "port", f"{tmp_path}/noisy.py:net", "--to", "candle", "--tui", "--out", f"{tmp_path}/out"
    )
    shown.until(" PORTING ")
    lines = ("printed", "raw one", "raw two", "by a child", "typed: ''")
    for line in lines:
        shown.until(line)
    shown.until("error TP0201")
    shown.press("q")
    code, printed = shown.end()
    assert not any(f"{line}\r\n" in shown.all for line in lines), "only the dashboard draws"
    assert code == 2
    assert printed.strip().startswith("error TP0201") and "more:  torchport explain TP0201" in printed


@pytest.mark.slow
def test_stopping_a_port_gives_130(terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    shown = terminal(
        "port", f"{tmp_path}/noisy.py:slow", "--to", "candle", "--tui", "--out", f"{tmp_path}/out"
    )
    shown.until("loading")
    shown.press("q")
    shown.until("Stop it and quit?")
    shown.press("y")
    code, printed = shown.end()
    assert code == 130 and printed.strip().startswith("stopped: ")
