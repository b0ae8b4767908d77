"""The folders of debugging runs: where they are, which there are, and how they are deleted.

A folder is a run if its index says so. Nothing else is ever deleted.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchport.debug.tree import FOLDERS, INDEX, KIND, ArtifactTree
from torchport.errors import DiskError, ReportError

ROOT = Path("torchport-debug")
"""Where runs go if nobody says otherwise."""
REPORT = "reports/debug.json"
RUNNING = ".running"
"""The file that a process holds a lock on while it makes a run."""


@dataclass(frozen=True)
class DebugFolder:
    """A run that is there."""

    path: Path
    name: str
    created: str
    bytes: int

    @property
    def report(self) -> Path:
        return self.path / REPORT


def new_tree(root: Path, name: str) -> ArtifactTree:
    """A folder of its own for a run, which is made at once so that no other run takes it."""
    plain = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run"
    number = 1
    while True:
        path = root / f"{plain}-{number:03d}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            number += 1
            continue
        except OSError as error:
            raise DiskError(
                "TP0330",
                f"cannot write {path}: {error.strerror}",
                where=str(path),
                fix="Free some space, or choose another folder for runs by --root.",
            ) from error
        tree = ArtifactTree(path, name)
        tree.write_index()
        return tree


def runs_in(root: Path) -> list[DebugFolder]:
    """The runs in a folder, the newest last."""
    if not root.is_dir():
        return []
    found = (read_folder(path) for path in root.iterdir() if path.is_dir() and not path.is_symlink())
    return sorted((one for one in found if one is not None), key=lambda one: (one.created, one.path.name))


def read_index(path: Path) -> dict[str, Any] | None:
    """What the index of a folder says; None if it is no index of ours."""
    try:
        index = json.loads((path / INDEX).read_text())
    except (OSError, ValueError):
        return None
    return index if isinstance(index, dict) and index.get("kind") == KIND else None


def read_folder(path: Path) -> DebugFolder | None:
    """The run in a folder; None if it is no run of ours."""
    index = read_index(path)
    if index is None:
        return None
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    return DebugFolder(path, str(index.get("name")), str(index.get("created")), size)


def newest_run(path: Path) -> DebugFolder:
    """The run in a folder, or the newest of those in it; ReportError if there is none."""
    inside = runs_in(path) if read_folder(path) is None else []
    return inside[-1] if inside else run_at(path)


def run_around(path: Path) -> Path | None:
    """The folder of the run that a file or folder belongs to, such as that of its KernelDiff; None if to none."""
    return next((one for one in (path, *path.resolve().parents) if read_index(one) is not None), None)


def run_at(path: Path) -> DebugFolder:
    """The run in a folder; ReportError if there is none."""
    found = read_folder(path)
    if found is not None:
        return found
    raise ReportError(
        "TP0340",
        f"{path} is no debugging run",
        where=str(path),
        fix="Give a folder that `torchport debug list` shows, or make one with `torchport debug run`.",
    )


@contextmanager
def in_progress(path: Path) -> Iterator[None]:
    """Within, a run is known to be made right now, also to other processes, and is not deleted."""
    mark = path / RUNNING
    try:
        file = mark.open("w")
    except OSError:  # The disk refuses it, as it will the rest, which is noted there.
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            mark.unlink(missing_ok=True)


def is_in_progress(path: Path) -> bool:
    """Whether a process makes the run at this moment; one that died does not."""
    try:
        with (path / RUNNING).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def delete(run: DebugFolder) -> list[Path]:
    """Deletes what torchport has made of a run, and gives what else is in its folder, which is left.

    The index goes last, so that what is left after an interruption is still known as a run.
    """
    _must_be_deletable(run.path)
    try:
        for name in (*FOLDERS, RUNNING):
            path = run.path / name
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        others = sorted(path for path in run.path.iterdir() if path.name != INDEX)
        (run.path / INDEX).unlink()
        if not others:
            run.path.rmdir()
    except OSError as error:
        raise DiskError(
            "TP0330", f"cannot delete {run.path}: {error.strerror}", where=str(run.path)
        ) from error
    return others


def _must_be_deletable(path: Path) -> None:
    if path.is_symlink():
        message = f"{path} is a link, and what it leads to may be anywhere"
        raise ReportError("TP0340", message, where=str(path), fix=f"Name the run itself: {path.resolve()}.")
    if read_index(path) is None:
        raise ReportError("TP0340", f"{path} is no debugging run any more", where=str(path))
    if is_in_progress(path):
        message = f"{path} is being made right now"
        raise ReportError("TP0340", message, where=str(path), fix="Wait for its end, or stop it by Ctrl-C.")
