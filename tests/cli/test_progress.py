"""Progress goes to stderr: lines in a log, a spinner on a terminal."""

import io
import sys
from importlib import import_module
from pathlib import Path

import pytest

from torchport.cli.progress import Progress
from torchport.events import Message, Passing, StepBegan


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress(StepBegan("capture", "capture"))
        progress(Message("recorded by hooks"))
    out, err = capsys.readouterr()
    assert (out, err) == ("", "capture\nrecorded by hooks\n")


def test_a_log_has_one_line_a_step_and_not_one_a_crate(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress(StepBegan("build", "building the port"))
        for crate in range(300):
            progress(Passing(f"build [{crate}/300]"))
    assert capsys.readouterr().err == "building the port\n"


def test_a_terminal_names_the_packages_that_are_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "slow_package.py").write_text("import json, colorsys\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "stderr", Terminal())
    shown: list[str] = []
    finders = list(sys.meta_path)
    with Progress() as progress:
        monkeypatch.setattr(progress, "_show", shown.append)
        progress(Message("loading net.py:net"))
        import_module("slow_package")
    assert shown == ["loading net.py:net", "loading net.py:net: importing slow_package"]
    assert sys.meta_path == finders


def test_a_spinner_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", "xterm-256color")
    with Progress() as progress:
        progress(Message("build [2/3]"))
        assert progress._status is not None
        progress._status.renderable  # noqa: B018 - draws without failing
    assert "\x1b[" in stderr.getvalue()


def test_an_error_passes_through_and_stops_the_spinner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(ZeroDivisionError), Progress():
        raise ZeroDivisionError
