"""A run as every view reads it: the report, and what lies beside it in the directory of the port.

In: a directory that `torchport port` wrote, or a report.json. What is missing beside the report is None, so that
what can be shown is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from torchport.capture.graph import Graph
from torchport.capture.manifest import read_manifest
from torchport.errors import ManifestError, ReportError
from torchport.runs.report import Report


@dataclass(frozen=True)
class Run:
    """`report` is the verdict; `folder` holds the capture, the project and the traces, where they are kept."""

    report: Report
    folder: Path

    @classmethod
    def open(cls, path: str | Path) -> Run:
        place = Path(path)
        file = place / "report.json" if place.is_dir() else place
        return cls(_read(file), file.parent)

    @cached_property
    def graph(self) -> Graph | None:
        """The graph that was ported; None where the manifest is not kept beside the report."""
        try:
            return read_manifest(self._capture("manifest.json"))[0]
        except ManifestError:
            return None

    @cached_property
    def rust(self) -> str | None:
        """The source of the port."""
        return _text(self.folder / "rust" / "src" / "model.rs")

    @property
    def golden(self) -> Path | None:
        return _if_there(self._capture("trace.safetensors"))

    @property
    def lockstep(self) -> Path | None:
        return _if_there(self.folder / "run" / "lockstep.safetensors")

    @property
    def chained(self) -> Path | None:
        return _if_there(self.folder / "run" / "chained.safetensors")

    def _capture(self, ending: str) -> Path:
        return self.folder / "capture" / f"{self.report.model}_{ending}"


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
        what = f"{wrong['msg']} at {place}" if place else wrong["msg"]
        raise ReportError("TP0341", f"the report is cut off or wrong: {what}", where=str(file)) from error


def _absent(file: Path) -> ReportError:
    folder = file.parent
    made = [name for name in ("capture", "rust", "run") if (folder / name).is_dir()]
    if made:
        message = f"{folder} has {', '.join(made)} and no report: the run did not come to its verdict"
        return ReportError("TP0340", message, where=str(file))
    return ReportError("TP0340", f"there is no report at {file}", where=str(file))


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _if_there(path: Path) -> Path | None:
    return path if path.is_file() else None
