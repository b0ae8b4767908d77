"""Opening a line of source in the user's editor."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

_COLON = ("{file}:{line}",)
_ARGUMENTS = {
    **dict.fromkeys(("code", "codium", "cursor"), ("--goto", "--wait", *_COLON)),
    **dict.fromkeys(("subl", "zed"), ("--wait", *_COLON)),
    **dict.fromkeys(("hx", "helix"), _COLON),
}
"""The arguments by which an editor opens a line; editors not named here take `+LINE FILE`, as vi, nano and emacs do."""
_PLACE = re.compile(r"(?P<file>.+):(?P<line>\d+)")


def command(source: str | None) -> list[str] | str:
    """The command that opens a source such as `net.py:12` in $EDITOR, or the reason why there is none."""
    try:
        editor = shlex.split(os.environ.get("EDITOR", ""))
    except ValueError as error:
        return f"EDITOR cannot be read: {error}"
    if not editor:
        return "EDITOR is not set: export EDITOR=vim, or another"
    place = _PLACE.fullmatch(source or "")
    if place is None:
        return "the line that calls this layer is not known"
    if not Path(place["file"]).is_file():
        return f"{place['file']} is not on this machine"
    arguments = _ARGUMENTS.get(Path(editor[0]).name, ("+{line}", "{file}"))
    return editor + [argument.format(**place.groupdict()) for argument in arguments]


def run(command: list[str]) -> str | None:
    """Runs the editor on the real terminal; gives the reason if that failed."""
    try:
        subprocess.run(command, stdin=sys.__stdin__, stdout=sys.__stdout__, stderr=sys.__stderr__)
    except OSError as error:
        return f"{command[0]} cannot be run: {error.strerror}"
    return None
