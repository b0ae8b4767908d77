"""The folder of a failing layer's snippet, and the commands that run its scripts."""

import ast
import shlex
from pathlib import Path
from typing import NamedTuple

from torchport.parity.result import Layer
from torchport.runs.folder import snippet_in
from torchport.runs.report import Report

_RUNS = {".py": "python", ".sh": "sh"}


class Command(NamedTuple):
    line: str
    about: str


def folder_of(layer: Layer, report: Report, run: Path | None) -> Path | None:
    """The folder of the layer's snippet: the one that the report names or, if the run was moved, the one beside it."""
    culprit = report.first_divergence
    named = culprit.snippet if culprit is not None and culprit.layer == layer.name else None
    places = [] if named is None else [Path(named)]
    if run is not None:
        places += [run / named, snippet_in(run, Path(named).name)] if named else []
        places.append(snippet_in(run, layer.name))
    return next((place for place in places if place.is_dir()), None)


def commands(folder: Path) -> list[Command]:
    """The commands that go to the folder and run each script."""
    scripts = sorted(path for path in folder.iterdir() if path.suffix in _RUNS)
    lines = [Command(shlex.join([_RUNS[path.suffix], path.name]), _about(path)) for path in scripts]
    return [Command(shlex.join(["cd", str(folder)]), ""), *lines]


def _about(path: Path) -> str:
    """The first line of a script's docstring."""
    try:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    except (OSError, SyntaxError, ValueError):
        return ""
    return text.splitlines()[0] if text else ""
