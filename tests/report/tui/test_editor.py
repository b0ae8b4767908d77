"""The line of source that a layer comes from, as the user's editor wants to be told."""

from pathlib import Path

import pytest

from torchport.report.tui import editor


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "my net.py"
    file.write_text("x = 1\n")
    return file


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("vim", ["vim", "+12", "{file}"]),
        ("nano -l", ["nano", "-l", "+12", "{file}"]),
        ("/usr/bin/emacs", ["/usr/bin/emacs", "+12", "{file}"]),
        ("code", ["code", "--goto", "--wait", "{file}:12"]),
        ("hx", ["hx", "{file}:12"]),
    ],
)
def test_editors_are_told_the_line_in_their_way(
    name: str, command: list[str], source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", name)
    assert editor.command(f"{source}:12") == [part.format(file=source) for part in command]


@pytest.mark.parametrize(
    ("name", "place", "why"),
    [
        ("", "net.py:1", "EDITOR is not set"),
        ("vi '", "net.py:1", "EDITOR cannot be read"),
        ("vi", None, "not known"),
        ("vi", "<string>", "not known"),
        ("vi", "/nowhere/net.py:1", "/nowhere/net.py is not on this machine"),
    ],
)
def test_what_is_lacking_is_said(
    name: str, place: str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", name)
    answer = editor.command(place)
    assert isinstance(answer, str) and why in answer


def test_an_editor_that_is_not_there_is_named() -> None:
    answer = editor.run(["/nowhere/vi", "+1", "net.py"])
    assert answer is not None and "/nowhere/vi cannot be run: No such file" in answer
