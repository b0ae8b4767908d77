"""Help lists every command once, by what one wants to do, and shells can complete a command line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from torchport.cli import COMPLETE, main
from torchport.cli.app import app
from torchport.cli.groups import Sections


def test_every_command_is_in_one_section_of_help(capsys: pytest.CaptureFixture[str]) -> None:
    listed = [name for names in Sections.titles.values() for name in names]
    commands = [command.callback.__name__ for command in app.registered_commands if command.callback]
    assert sorted(listed) == sorted(commands + [group.name or "" for group in app.registered_groups])
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert [shown.index(f"{title}:\n") for title in Sections.titles] == sorted(
        shown.index(f"{title}:\n") for title in Sections.titles
    )
    assert all(shown.count(f"\n  {name} ") == 1 for name in listed)


@pytest.mark.parametrize(
    ("words", "place", "found"),
    [
        ("torchport de", 1, ["debug"]),
        ("torchport port --dy", 2, ["--dynamic"]),
        ("torchport marble con", 2, ["convert"]),
        ("torchport nothing", 1, []),
    ],
)
def test_a_shell_is_told_how_a_command_line_goes_on(
    words: str,
    place: int,
    found: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(COMPLETE, "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(place))
    assert main() == 0
    assert capsys.readouterr().out.split() == found


def test_completion_can_be_had_for_a_shell() -> None:
    environment = {**os.environ, "SHELL": "/bin/bash", "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [
        sys.executable,
        "-c",
        "import sys; from torchport.cli import main; sys.exit(main())",
        "--show-completion",
        "bash",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and COMPLETE in done.stdout, done.stderr
