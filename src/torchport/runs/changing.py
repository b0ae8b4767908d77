"""Changing the folder of a run so that it never is of two runs: what was there comes back if the change does not end.

Before a change, the files that it may touch are linked into `.torchport-before`. That goes when the change is complete;
if it fails, the files are put back. If Python is killed, the next command that opens the folder puts them back.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from torchport.errors import DiskError, ReportError

BEFORE = ".torchport-before"
_NAMES = ".names.json"
"""The file, among those that were linked, with the names that the change may touch."""
_CACHE = "CACHEDIR.TAG"
"""What a folder has in it that programs, such as cargo, can make again."""
_changing: list[Path] = []
"""The folders that this process is changing."""


@contextmanager
def changing(folder: Path, names: Collection[str]) -> Iterator[None]:
    """Within, files and folders of these names may be changed; unless the block ends well, they are as before.

    Within another change of the folder, or of one around it, this does nothing: that one will put back all.
    """
    place = folder.resolve()
    if _is_being_changed_here(place):
        _make(folder)
        yield
        return
    made = _make(folder)
    try:
        with _alone(folder):
            _put_back(place)
            _remember(place, names)
            _changing.append(place)
            try:
                yield
            except BaseException:
                with suppress(OSError):  # Otherwise the next command does it.
                    _put_back(place)
                raise
            else:
                _forget(place)
            finally:
                _changing.remove(place)
    finally:
        for empty in made:
            with suppress(OSError):
                empty.rmdir()


def put_back_if_interrupted(folder: Path) -> None:
    """Undoes a change that was never completed, because Python was killed meanwhile."""
    place = folder.resolve()
    if (place / BEFORE).is_dir() and not _is_being_changed_here(place):
        with _alone(folder):
            _put_back(place)


def _is_being_changed_here(place: Path) -> bool:
    return any(place.is_relative_to(one) for one in _changing)


def _make(folder: Path) -> list[Path]:
    """Makes a folder, and gives those that were not there, the innermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _disk_error(folder, error) from error
    return missing


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Within, no other process changes the folder; ReportError if one is doing so now."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise _disk_error(folder, error) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = f"another torchport command is at work in {folder}"
            raise ReportError("TP0346", message, where=str(folder)) from error
        except OSError:
            pass  # Some network disks have no locks.
        yield
    finally:
        os.close(handle)


def _remember(place: Path, names: Collection[str]) -> None:
    """Links the files, so that they are kept whatever comes in their place. The last step makes it count."""
    begun = place / f"{BEFORE}.begun"
    try:
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir()
        for name in names:
            for path in _under(place / name):
                kept = begun / path.relative_to(place)
                if path.is_dir() and not path.is_symlink():
                    kept.mkdir(parents=True, exist_ok=True)
                else:
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    _link(path, kept)
        (begun / _NAMES).write_text(json.dumps(sorted(names)), encoding="utf-8")
        os.rename(begun, place / BEFORE)
    except OSError as error:
        raise _disk_error(place, error) from error
    finally:
        shutil.rmtree(begun, ignore_errors=True)


def _forget(place: Path) -> None:
    """The change is complete from the first step on."""
    ended = place / f"{BEFORE}.ended"
    try:
        shutil.rmtree(ended, ignore_errors=True)
        os.rename(place / BEFORE, ended)
    except OSError as error:
        raise _disk_error(place, error) from error
    shutil.rmtree(ended, ignore_errors=True)


def _put_back(place: Path) -> None:
    """Undoes a change that was not completed, if there is one; may be killed, too, and done again."""
    for left in ("begun", "ended"):
        shutil.rmtree(place / f"{BEFORE}.{left}", ignore_errors=True)
    kept = place / BEFORE
    if not kept.is_dir():
        return
    for name in json.loads((kept / _NAMES).read_text(encoding="utf-8")):
        for path in reversed(list(_under(place / name))):
            _remove_unless_kept(path, kept / path.relative_to(place))
    for half_written in place.glob(".*.tmp"):
        half_written.unlink(missing_ok=True)
    for path in _under(kept):
        if path not in (kept, kept / _NAMES):
            _put_back_one(path, place / path.relative_to(kept))
    _forget(place)


def _remove_unless_kept(path: Path, kept: Path) -> None:
    is_folder = path.is_dir() and not path.is_symlink()
    if not is_folder:
        if not os.path.lexists(kept) or kept.is_dir():
            path.unlink(missing_ok=True)
    elif not kept.is_dir():
        with suppress(OSError):  # One with a cache in it stays.
            path.rmdir()


def _put_back_one(kept: Path, path: Path) -> None:
    if kept.is_dir() and not kept.is_symlink():
        path.mkdir(parents=True, exist_ok=True)
    elif not _is_same(kept, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.before.tmp")
        beside.unlink(missing_ok=True)
        _link(kept, beside)
        os.rename(beside, path)


def _under(path: Path) -> Iterator[Path]:
    """A file, or a folder and all in it that is no cache, the outer before the inner."""
    if not os.path.lexists(path):
        return
    yield path
    if path.is_dir() and not path.is_symlink():
        for entry in sorted(os.scandir(path), key=lambda one: one.name):
            inner = Path(entry.path)
            if not (entry.is_dir() and (inner / _CACHE).exists()):
                yield from _under(inner)


def _link(path: Path, other: Path) -> None:
    """The same file under another name; a copy on disks that have no links."""
    try:
        os.link(path, other, follow_symlinks=False)
    except OSError:
        shutil.copy2(path, other, follow_symlinks=False)


def _is_same(one: Path, other: Path) -> bool:
    if not os.path.lexists(other):
        return False
    first, second = os.lstat(one), os.lstat(other)
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _disk_error(place: Path, error: OSError) -> DiskError:
    return DiskError("TP0330", f"cannot write to {place}: {error.strerror}", where=str(place))
