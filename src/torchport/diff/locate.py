"""The files that a path to be compared stands for: a checkpoint, a capture or a run may be several files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchport.capture.file_names import capture_name, captured_file
from torchport.diff.formats import unreadable
from torchport.errors import ManifestError, ReportError, UsageError
from torchport.runs.changing import put_back_if_interrupted
from torchport.runs.folder import (
    REPORT_FILE,
    RUN_FILE,
    folder_of_record,
    is_run,
    open_folder,
    record_in,
)

_SHARD = re.compile(r"(.*)-(\d+)-of-(\d+)\.\w+")
_INDEX = ".index.json"
_ENDINGS = (".safetensors", ".bin", ".pt", ".pth")


@dataclass(frozen=True)
class Located:
    """The files in order, the manifest of their capture, and the file of each tensor, if an index says so."""

    kind: str
    files: tuple[Path, ...]
    manifest: Path | None = None
    index: dict[str, Path] | None = None


def locate(path: Path) -> Located:
    if path.is_dir():
        return _directory(path)
    if not path.exists():
        raise unreadable(path, "is not there")
    if path.name.endswith(_INDEX):
        return _index(path)
    if capture_name(path, "manifest") is not None:
        return _capture(path)
    if path.name in (REPORT_FILE, RUN_FILE):
        return _run(path.parent)
    return Located("file", (path,), _manifest_beside(path))


def _directory(folder: Path) -> Located:
    if is_run(folder):
        return _run(folder)
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    except OSError as error:
        raise unreadable(folder, f"cannot be read: {error.strerror}") from error
    if manifests := [folder / name for name in names if capture_name(name, "manifest") is not None]:
        return _capture(_only(manifests, folder))
    if indexes := [folder / name for name in names if name.endswith(_INDEX)]:
        return _index(_only(indexes, folder))
    for ending in _ENDINGS:
        if found := [folder / name for name in names if name.endswith(ending)]:
            return _shards(found) or Located("file", (_only(found, folder),))
    raise unreadable(
        folder,
        "holds no tensors: no run, capture, index, safetensors file or PyTorch checkpoint",
        fix="Give a file, or a directory that one of these lies in.",
    )


def _only(found: Sequence[Path], folder: Path) -> Path:
    if len(found) > 1:
        names = ", ".join(path.name for path in found[:4]) + (" and more" if len(found) > 4 else "")
        message = f"{folder} has {len(found)} that could be meant: {names}"
        raise UsageError("TP0801", message, where=str(folder), fix="Give the path of one of them.")
    return found[0]


def _run(folder: Path) -> Located:
    put_back_if_interrupted(folder)
    chained = record_in(folder, "chained")
    if not chained.is_file():
        message = f"the run has no {chained.relative_to(folder)}: what the port computed is not there"
        raise ReportError("TP0343", message, where=str(folder))
    return Located("run", (chained,), _manifest_of_run(folder))


def _capture(manifest: Path) -> Located:
    trace = captured_file(manifest.parent, capture_name(manifest, "manifest") or "", "trace")
    if not trace.is_file():
        message = f"the capture has no {trace.name}: no values were recorded, or they lie elsewhere"
        raise ReportError("TP0343", message, where=str(manifest))
    return Located("capture", (trace,), manifest)


def _index(path: Path) -> Located:
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        by_name = {str(name): path.parent / str(file) for name, file in data["weight_map"].items()}
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(path, "is no index of a sharded checkpoint: it has no weight_map") from error
    files = tuple(sorted(set(by_name.values())))
    if not files:
        raise unreadable(path, "is an index of nothing: its weight_map is empty")
    if missing := [file.name for file in files if not file.is_file()]:
        raise unreadable(path, f"names shards that are not there: {', '.join(missing[:4])}")
    return Located("sharded checkpoint", files, index=by_name)


def _shards(found: Sequence[Path]) -> Located | None:
    """The checkpoint without an index that these files are the shards of, or None if they are no shards."""
    parts = [_SHARD.fullmatch(path.name) for path in found]
    if len({(part[1], part[3]) if part else None for part in parts}) != 1 or parts[0] is None:
        return None
    wanted = int(parts[0][3])
    if len(found) != wanted:
        raise unreadable(found[0].parent, f"has {len(found)} of the {wanted} shards of {parts[0][1]}")
    return Located("sharded checkpoint", tuple(found))


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
