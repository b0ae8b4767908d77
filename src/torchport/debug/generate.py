"""Reports of debugging runs as files: one page for people, JSON for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torchport.debug.folders import DebugFolder, newest_run
from torchport.debug.report import DebugReport
from torchport.errors import ReportError, UsageError
from torchport.files import write_atomically

FORMATS = ("html", "json")
BENCH = "Write it with `torchport bench … --out FILE`."


class ReportGenerator:
    """`ReportGenerator("torchport-debug/mynet-001").write("html")`; several runs come on one page."""

    def __init__(self, *runs: str | Path, benchmarks: str | Path | None = None) -> None:
        if not runs:
            raise UsageError("TP0801", "a report is of one run or several", fix="Give the folder of a run.")
        self.folders: list[DebugFolder] = [newest_run(Path(run)) for run in runs]
        self.reports = [DebugReport.read(folder.report) for folder in self.folders]
        self.benchmarks = None if benchmarks is None else _read_benchmarks(Path(benchmarks))

    def text(self, format: str = "html") -> str:
        """The page, or JSON: the report of the run, or a list of them if there are several."""
        if format == "html":
            from torchport.debug.page.page import render

            return render(list(zip(self.reports, self.folders, strict=True)), self.benchmarks)
        if format != "json":
            raise UsageError(
                "TP0801", f"there is no format {format!r}", fix=f"Give one of {', '.join(FORMATS)}."
            )
        if len(self.reports) == 1:
            return self.reports[0].to_json()
        return json.dumps([report.model_dump(mode="json") for report in self.reports], indent=2)

    def write(self, format: str = "html", path: str | Path | None = None) -> Path:
        """Writes it, by default beside the report of the first run, and gives the path."""
        text = self.text(format)
        place = self.folders[0].report.with_name(f"report.{format}") if path is None else Path(path)
        write_atomically(place, text + "\n")
        return place


def _read_benchmarks(path: Path) -> Any:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ReportError(
            "TP0341", f"{path} has no results of benchmarks: {error}", where=str(path), fix=BENCH
        ) from error
    if not isinstance(found, dict) or not isinstance(found.get("rows"), list):
        raise ReportError("TP0341", f"{path} has no results of benchmarks", where=str(path), fix=BENCH)
    return found
