"""The debugging runs in a folder, each in a line."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from torchport.debug import phrases
from torchport.debug.folders import DebugFolder, is_in_progress, runs_in
from torchport.debug.report import DebugReport
from torchport.errors import ReportError


class Listed(NamedTuple):
    path: str
    status: str
    """`running` if the run is being made, `unfinished` if it did not come to its report."""
    model: str
    backend: str | None
    created: str
    bytes: int
    headline: str


def listed(root: Path) -> list[Listed]:
    """The newest last."""
    return [_line(folder) for folder in runs_in(root)]


def _line(folder: DebugFolder) -> Listed:
    common = (folder.created, folder.bytes)
    try:
        report = DebugReport.read(folder.report)
    except ReportError as error:
        if is_in_progress(folder.path):
            return Listed(
                str(folder.path), "running", folder.name, None, *common, "it is being made right now"
            )
        return Listed(str(folder.path), "unfinished", folder.name, None, *common, error.message)
    return Listed(
        str(folder.path), report.status, report.model, report.backend, *common, phrases.headline(report)
    )
