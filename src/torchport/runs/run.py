"""A run as every view reads it: the report, and what lies beside it in the folder of the run.

In: a folder that `torchport port` wrote, or a report.json. What is missing beside the report is None, so that what can
be shown is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from torchport.capture.graph import Graph
from torchport.capture.manifest import read_manifest
from torchport.errors import ManifestError, ReportError, TorchportError
from torchport.runs.changing import put_back_if_interrupted
from torchport.runs.folder import REPORT_FILE, RunFile, RunFolder, open_folder, parts_there
from torchport.runs.report import Report
from torchport.targets.base import SourceMap
from torchport.targets.registry import find_target


@dataclass(frozen=True)
class Run:
    """`report` is the verdict; `files` knows where the capture, the artifact and the traces are, if they are kept."""

    report: Report
    files: RunFolder

    @classmethod
    def open(cls, path: str | Path) -> Run:
        place = Path(path)
        file = place / REPORT_FILE if place.is_dir() else place
        put_back_if_interrupted(file.parent)
        return cls.of(_where_it_is_now(_read(file), file), file.parent)

    @classmethod
    def of(cls, report: Report, folder: Path) -> Run:
        """A report, and the folder in which it lies or would lie."""
        return cls(report, _folder(folder, report))

    @property
    def folder(self) -> Path:
        return self.files.path

    @cached_property
    def graph(self) -> Graph | None:
        """The graph that was ported; None if the manifest is not kept beside the report."""
        try:
            return read_manifest(self.files.manifest)[0]
        except ManifestError:
            return None

    @cached_property
    def sources(self) -> SourceMap | None:
        """The source of the artifact; None if there is none, or nobody knows how to read it."""
        if self.graph is None or self.files.about.project is None or not self.files.project.is_dir():
            return None
        try:
            artifact = find_target(self.files.about.target).open(self.files.project, self.files.name)
            return artifact.sources(self.graph)
        except TorchportError:
            return None

    @property
    def golden(self) -> Path | None:
        return _if_there(self.files.captured("trace"))

    @property
    def lockstep(self) -> Path | None:
        return _if_there(self.files.record("lockstep"))

    @property
    def chained(self) -> Path | None:
        return _if_there(self.files.record("chained"))


def _folder(path: Path, report: Report) -> RunFolder:
    """The folder beside a report; a report that lies alone is of the model and the target that it names."""
    try:
        return open_folder(path)
    except ManifestError:
        return RunFolder(path, RunFile(name=report.model, target=report.target))


def _read(file: Path) -> Report:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise _absent(file) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError("TP0341", f"the report cannot be read: {error}", where=str(file)) from error
    try:
        return Report.from_json(text)
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ".".join(str(part) for part in wrong["loc"])
        fault = f"{wrong['msg']} at {place}" if place else wrong["msg"]
        raise ReportError("TP0341", f"the report is cut off or wrong: {fault}", where=str(file)) from error


def _where_it_is_now(report: Report, file: Path) -> Report:
    """The report with the paths of the folder that it is read from, which may have been moved since it was written."""
    if report.report is None:
        return report
    written = Path(report.report).parent

    def moved(named: str) -> str:
        path = Path(named)
        now = file.parent / path.relative_to(written) if path.is_relative_to(written) else path
        return str(now) if now.exists() else named

    culprit = report.first_divergence
    if culprit is not None and culprit.snippet is not None:
        culprit = culprit.model_copy(update={"snippet": moved(culprit.snippet)})
    files = {name: moved(place) for name, place in report.files.items()}
    return report.model_copy(update={"report": str(file), "files": files, "first_divergence": culprit})


def _absent(file: Path) -> ReportError:
    if made := parts_there(file.parent):
        message = f"{file.parent} has {', '.join(made)} and no report: the run did not come to its verdict"
        return ReportError("TP0340", message, where=str(file))
    return ReportError("TP0340", f"there is no report at {file}", where=str(file))


def _if_there(path: Path) -> Path | None:
    return path if path.is_file() else None
