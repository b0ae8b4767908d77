"""Progress goes to stderr: lines in a log, a spinner on a terminal."""

import io
import sys

import pytest

from torchport.cli.progress import Progress
from torchport.events import Message, StepBegan


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress(StepBegan("capture", "capture"))
        progress(Message("build [2/3]"))
    out, err = capsys.readouterr()
    assert (out, err) == ("", "capture\nbuild [2/3]\n")


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
