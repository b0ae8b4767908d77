"""What in an artifact is a user's own work: files that are no longer as they were generated, and those put beside them.

In: the folder of a run, before and after its artifact is generated. Out: names of files. Nothing here knows a target.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from torchport.files import write_atomically
from torchport.runs.folder import RunFolder

_CACHE = "CACHEDIR.TAG"
"""What a folder has in it that programs, such as cargo, can make again."""


@contextmanager
def noted_as_written(files: RunFolder) -> Iterator[None]:
    """Within, the artifact is generated; the folder of the run keeps which files that wrote, and their digests."""
    place, known = files.project, _written(files) or {}
    before = {name: _state(place / name) for name in files_in(place) if name not in known}
    yield
    written = [name for name in files_in(place) if before.get(name) != _state(place / name)]
    digests = {name: _digest(place / name) for name in written}
    noted = {"project": files.about.project, "files": digests}
    write_atomically(files.as_written, json.dumps(noted, indent=1) + "\n")


def edited(files: RunFolder) -> list[str] | None:
    """The generated files that have another content now; None if nobody noted what was generated."""
    written, place = _written(files), files.project
    if written is None:
        return None
    return [name for name, was in written.items() if (place / name).is_file() and _differs(place / name, was)]


def added(files: RunFolder) -> list[str]:
    """The files that are beside the generated ones, and no cache; none if nobody noted what was generated."""
    written = _written(files)
    return [] if written is None else [name for name in files_in(files.project) if name not in written]


def remove_generated(files: RunFolder) -> None:
    """Removes what was generated. What a user has put beside it stays, and all of it if nobody noted which is which."""
    folders: set[Path] = set()
    for name in _written(files) or ():
        path = files.project / name
        path.unlink(missing_ok=True)
        folders.update(parent for parent in path.parents if parent.is_relative_to(files.project))
    for folder in sorted(folders, reverse=True):
        with suppress(OSError):  # Something else is in it.
            folder.rmdir()


def files_in(place: Path) -> list[str]:
    """The names of all files in a folder, from there on, but for those in caches."""
    return sorted(path.relative_to(place).as_posix() for path in _under(place))


def _under(folder: Path) -> Iterator[Path]:
    if not folder.is_dir() or (folder / _CACHE).exists():
        return
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _under(Path(entry.path))
        else:
            yield Path(entry.path)


def _written(files: RunFolder) -> dict[str, list[int | str]] | None:
    """Name of a generated file → its size and digest; None if that was not noted of this artifact."""
    try:
        noted = json.loads(files.as_written.read_text(encoding="utf-8"))
        return dict(noted["files"]) if noted["project"] == files.about.project else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _differs(path: Path, was: list[int | str]) -> bool:
    return path.stat().st_size != was[0] or _digest(path) != was


def _digest(path: Path) -> list[int | str]:
    with path.open("rb") as file:
        return [path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()]


def _state(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_ino, found.st_mtime_ns
