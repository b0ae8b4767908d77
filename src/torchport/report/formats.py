"""The formats that a run can be shown in: a table of names and of the functions that write them.

In: a `Run`. Out: its text in a format. A renderer is imported when it is asked for: some need optional packages.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from torchport.errors import ReportError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from torchport.runs.run import Run

FORMATS = {
    "text": "torchport.report.terminal:text_of",
    "json": "torchport.report.formats:json_of",
    "markdown": "torchport.report.markdown:render",
    "junit": "torchport.report.junit:render",
    "sarif": "torchport.report.sarif:render",
    "github": "torchport.report.github:render",
    "html": "torchport.report.html:render",
}


def renderer(name: str) -> Callable[[Run], str]:
    """The function that writes a run in the format of that name."""
    if name not in FORMATS:
        raise UsageError("TP0801", f"there is no format {name!r}", fix=f"Give one of {', '.join(FORMATS)}.")
    module, _, function = FORMATS[name].partition(":")
    found: Callable[[Run], str] = getattr(import_module(module), function)
    return found


def json_of(run: Run) -> str:
    return run.report.to_json() + "\n"


def open_run(path: Path) -> Run:
    """The run at `path`; raises a ReportError if there is nothing in it to show."""
    from torchport.runs.run import Run

    run = Run.open(path)
    report = run.report
    unproven = report.status == "pass" or (report.status == "fail" and not report.todos)
    if unproven and not report.layers:
        message = f"the report says {report.status} and has no layers, so it says nothing about a port"
        raise ReportError("TP0343", message, where=str(path), fix="Run `torchport check` on the port again.")
    return run
