"""The files that a path to be compared stands for: a checkpoint, a capture or a run may be several files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torchport.capture.file_names import capture_name, captured_file
from torchport.errors import ManifestError, ReportError
from torchport.runs.changing import put_back_if_interrupted
from torchport.runs.folder import (
    REPORT_FILE,
    RUN_FILE,
    folder_of_record,
    is_run,
    open_folder,
    record_in,
)
from torchport.weights.formats import unreadable
from torchport.weights.shards import files_in, only, shards_of


@dataclass(frozen=True)
class Located:
    """The files in order, the manifest of their capture, and the file of each tensor, if an index says so."""

    kind: str
    files: tuple[Path, ...]
    index: dict[str, Path] | None = None
    manifest: Path | None = None


def locate(path: Path) -> Located:
    if path.is_dir():
        return _directory(path)
    if not path.exists():
        raise unreadable(path, "is not there")
    if capture_name(path, "manifest") is not None:
        return _capture(path)
    if path.name in (REPORT_FILE, RUN_FILE):
        return _run(path.parent)
    return _checkpoint(path, _manifest_beside(path))


def _directory(folder: Path) -> Located:
    if is_run(folder):
        return _run(folder)
    manifests = [path for path in files_in(folder) if capture_name(path, "manifest") is not None]
    if manifests:
        return _capture(only(manifests, folder))
    return _checkpoint(folder)


def _checkpoint(path: Path, manifest: Path | None = None) -> Located:
    shards = shards_of(path)
    return Located(shards.kind, shards.files, shards.index, manifest)


def _run(folder: Path) -> Located:
    put_back_if_interrupted(folder)
    chained = record_in(folder, "chained")
    if not chained.is_file():
        message = f"the run has no {chained.relative_to(folder)}: what the port computed is not there"
        raise ReportError("TP0343", message, where=str(folder))
    return Located("run", (chained,), manifest=_manifest_of_run(folder))


def _capture(manifest: Path) -> Located:
    trace = captured_file(manifest.parent, capture_name(manifest, "manifest") or "", "trace")
    if not trace.is_file():
        message = f"the capture has no {trace.name}: no values were recorded, or they lie elsewhere"
        raise ReportError("TP0343", message, where=str(manifest))
    return Located("capture", (trace,), manifest=manifest)


def _manifest_beside(path: Path) -> Path | None:
    if (name := capture_name(path, "trace")) is not None:
        return _if_file(captured_file(path.parent, name, "manifest"))
    run = folder_of_record(path)
    return None if run is None else _manifest_of_run(run)


def _manifest_of_run(folder: Path) -> Path | None:
    """The manifest of the capture that the run is of; a comparison of two models has none."""
    try:
        return _if_file(open_folder(folder).manifest)
    except (ManifestError, ReportError):
        return None


def _if_file(path: Path) -> Path | None:
    return path if path.is_file() else None
