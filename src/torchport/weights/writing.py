"""A safetensors file that is written in a stream, goes on after a kill where it was, and is read back before it counts.

Beside the file that is to be, there is a partial one and a journal of which tensors are complete in it, each with its
checksum. The partial file gets the name only when every tensor in it has been read again.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import numpy as np

from torchport.errors import DiskError, WeightsError
from torchport.events import Say
from torchport.trace import safetensors_layout as layout
from torchport.weights.stored import Stored
from torchport.weights.views import pieces

_SPARE = 2**20
_SAID_EVERY = 1.0
_READ_BACK = 2**22


@dataclass(frozen=True)
class Written:
    """What was written: how many bytes of values, how many of them by an earlier run, and how long it took."""

    tensors: int
    bytes: int
    resumed_bytes: int
    seconds: float


@dataclass(frozen=True)
class _Place:
    name: str
    stored: Stored
    start: int
    nbytes: int


def write_stream(
    out: Path,
    tensors: Mapping[str, tuple[layout.StoredForm, Stored]],
    metadata: Mapping[str, str],
    *,
    of: str,
    say: Say,
) -> Written:
    """Writes tensors, each with the form that the file says it has. `of` tells this content from any other."""
    entries = {name: form for name, (form, _) in tensors.items()}
    names = layout.in_order(entries)
    header = layout.header(entries, names, metadata)
    places = list(_places(tensors, names, len(header)))
    began = time.monotonic()
    with _partial(out) as partial:
        size = places[-1].start + places[-1].nbytes if places else len(header)
        _must_have_room(out, size - partial.size)
        journal = Journal(partial.journal, hashlib.sha256(header + of.encode()).hexdigest())
        done = {} if partial.is_new else _still_there(partial.file, header, places, journal.read())
        journal.begin(done)
        progress = _Progress(say, sum(place.nbytes for place in places), sum(_sizes(places, done)))
        if not done:
            partial.file.truncate(0)
        partial.file.seek(0)
        _write(partial.file, header)
        with ThreadPoolExecutor(1, thread_name_prefix="read-back") as readers:
            read_back = {}
            for place in places:
                if place.name not in done:
                    partial.file.seek(place.start)
                    done[place.name] = _copy(partial.file, place, progress)
                    journal.note(place.name, done[place.name])
                    read_back[place.name] = readers.submit(_checksum, partial.file, place)
            partial.file.truncate(size)
            wrong = [name for name, found in read_back.items() if found.result() != done[name]]
        _must_be_as_written(partial, header, wrong)
        partial.becomes(out)
    total = sum(place.nbytes for place in places)
    return Written(len(places), total, progress.resumed, time.monotonic() - began)


def _places(
    tensors: Mapping[str, tuple[layout.StoredForm, Stored]], names: list[str], start: int
) -> Iterator[_Place]:
    for name in names:
        form, stored = tensors[name]
        yield _Place(name, stored, start, form.nbytes)
        start += form.nbytes


def _sizes(places: list[_Place], done: Mapping[str, int]) -> list[int]:
    return [place.nbytes for place in places if place.name in done]


def _copy(file: FileIO, place: _Place, progress: _Progress) -> int:
    """Writes a tensor and gives its checksum."""
    checksum, length = 0, 0
    for piece in pieces(place.stored):
        data = np.ascontiguousarray(piece).view(np.uint8).data
        checksum = zlib.crc32(data, checksum)
        _write(file, data)
        length += len(data)
        progress.add(len(data))
    if length != place.nbytes:
        raise ValueError(f"{place.name} has {length} bytes, and should have {place.nbytes}")
    return checksum


def _write(file: FileIO, data: memoryview | bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


class Journal:
    """The tensors that are complete in a partial file: a line for each, under one that says of what."""

    def __init__(self, path: Path, of: str) -> None:
        self._path, self._of = path, of

    def read(self) -> dict[str, int]:
        """The checksum of each complete tensor; none if the file is of something else. A torn last line is ignored."""
        found: dict[str, int] = {}
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
            if not lines or json.loads(lines[0]) != {"of": self._of}:
                return {}
            for line in lines[1:]:
                entry = json.loads(line)
                found[entry["name"]] = entry["crc32"]
        except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError):
            return found
        return found

    def begin(self, done: Mapping[str, int]) -> None:
        lines = [{"of": self._of}, *({"name": name, "crc32": value} for name, value in done.items())]
        self._path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")

    def note(self, name: str, checksum: int) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, "crc32": checksum}) + "\n")


@dataclass
class _Partial:
    path: Path
    journal: Path
    file: FileIO
    is_new: bool

    @property
    def size(self) -> int:
        return os.fstat(self.file.fileno()).st_size

    def becomes(self, out: Path) -> None:
        os.replace(self.path, out)

    def forget(self) -> None:
        for path in (self.path, self.journal):
            with suppress(OSError):
                path.unlink(missing_ok=True)


@contextmanager
def _partial(out: Path) -> Iterator[_Partial]:
    """The partial file, which is ours alone. It goes if the block fails, and stays if the process is stopped."""
    path = out.with_name(f".{out.name}.partial")
    partial: _Partial | None = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        is_new = not path.exists()
        with path.open("r+b" if not is_new else "w+b", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise DiskError(
                    "TP0330", f"{out} is being written by another process", where=str(out)
                ) from error
            partial = _Partial(path, path.with_name(f"{path.name}.journal"), file, is_new)
            yield partial
        partial.forget()
    except OSError as error:
        if partial is not None:
            partial.forget()
        raise DiskError("TP0330", f"cannot write {out}: {error.strerror or error}", where=str(out)) from error
    except Exception:
        if partial is not None:
            partial.forget()
        raise


def _must_have_room(out: Path, needed: int) -> None:
    free = shutil.disk_usage(out.parent).free
    if needed + _SPARE > free:
        raise DiskError(
            "TP0330",
            f"{out} would need {needed / 1e9:.2f} GB more, and there are {free / 1e9:.2f} GB free",
            where=str(out),
        )


def _still_there(
    file: FileIO, header: bytes, places: list[_Place], noted: Mapping[str, int]
) -> dict[str, int]:
    """The tensors that the journal has and that are in the file as it says."""
    file.seek(0)
    if not noted or file.read(len(header)) != header:
        return {}
    return {
        place.name: noted[place.name]
        for place in places
        if place.name in noted and _checksum(file, place) == noted[place.name]
    }


def _checksum(file: FileIO, place: _Place) -> int | None:
    """The checksum of a tensor as it is in the file; None if the file ends before it does."""
    checksum, at, end = 0, place.start, place.start + place.nbytes
    room = memoryview(bytearray(min(_READ_BACK, place.nbytes)))
    while at < end:
        count = os.preadv(file.fileno(), [room[: end - at]], at)
        if not count:
            return None
        checksum = zlib.crc32(room[:count], checksum)
        at += count
    return checksum


def _must_be_as_written(partial: _Partial, header: bytes, wrong: list[str]) -> None:
    """Raises a WeightsError if a tensor, the header or the file as a whole is not as it should be."""
    if os.pread(partial.file.fileno(), len(header), 0) != header:
        wrong = ["the header", *wrong]
    try:
        layout.read_header(partial.path)
    except layout.NotSound as error:
        wrong = [*wrong, f"the file ({error})"]
    if wrong:
        raise WeightsError("TP0325", f"{wrong[0]} is not what was written there", where=str(partial.path))


class _Progress:
    """Says how much is written, and how fast."""

    def __init__(self, say: Say, total: int, resumed: int) -> None:
        self.resumed = resumed
        self._say, self._total, self._done = say, total, resumed
        self._began = self._said = time.monotonic()

    def add(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._said < _SAID_EVERY:
            return
        self._said = now
        speed = (self._done - self.resumed) / (now - self._began)
        self._say(f"{self._done / 1e9:.1f} of {self._total / 1e9:.1f} GB, {speed / 1e6:.0f} MB/s")
