"""A journal beside a `.marble` file: each change is written down before it is made.

After a crash, the file and its journal give the graph before the change or the one after it. A journal belongs to one
writing of the file; if the file was saved anew, an older journal counts no more.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchport.capture.graph import dtype_name
from torchport.errors import GraphFileError, NeuronError, TorchportError
from torchport.files import write_atomically
from torchport.targets.marble.core.adding import NeuronGroup
from torchport.targets.marble.core.changes import Change
from torchport.targets.marble.core.core import Core
from torchport.trace.reading import as_bytes

MOST_IDS = 100_000_000
"""Ids that one change may be about."""
_WRONG = (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, OverflowError)
"""What arguments raise that are not those of a change."""
_WITHOUT = "Move the journal away to go on from the file without the changes in it."


def journal_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.journal")


class FileJournal:
    """The changes since a file was written."""

    def __init__(self, file: Path, base: str) -> None:
        self.path, self.base = journal_of(file.resolve()), base
        self._end = 0
        """Where the last record of this journal ends: what is after it was written by somebody else."""

    def begin(self) -> None:
        """Empty, for the file as it is now."""
        head = _record({"base": self.base})
        write_atomically(self.path, head)
        self._end = len(head)

    def write(self, change: Change) -> None:
        """On the disk when it returns."""
        record = _record({"change": change.name, "arguments": _encoded(dict(change.arguments))})
        try:
            with self.path.open("r+b", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                self._must_be_ours(file)
                _append(file, self._end, record)
        except OSError as error:
            raise NeuronError(
                "TP0904", f"the change could not be written to {self.path}: {error.strerror}"
            ) from error
        self._end += len(record)

    def _must_be_ours(self, file: FileIO) -> None:
        """Refuses a journal that others wrote to, or began anew: the change would be lost, or another one."""
        head = _record({"base": self.base})
        if file.read(len(head)) != head or file.seek(0, os.SEEK_END) != self._end:
            raise NeuronError(
                "TP0904",
                f"{self.path} was written to by somebody else, so the change would not be kept",
                fix="Load the file again, and make the change there.",
            )

    def replay(self, core: Core) -> None:
        """Makes the changes that were written down for this state of the file, if there are some."""
        for number, change in enumerate(self.changes(), 1):
            try:
                core.undo() if change.name == "undo" else core.change(change)
            except (TorchportError, *_WRONG) as error:
                raise self._unsound(number, error) from error

    def changes(self) -> Iterator[Change]:
        """What was written down for this writing of the file. A record that a crash cut off was never made."""
        for number, (record, _) in enumerate(self._records()[1:], 1):
            try:
                yield Change(str(record["change"]), _decoded(record["arguments"]))
            except _WRONG as error:
                raise self._unsound(number, error) from error

    def _unsound(self, number: int, error: Exception) -> GraphFileError:
        reason = (
            error.message if isinstance(error, TorchportError) else f"{type(error).__name__}: {error!s:.200}"
        )
        return GraphFileError(
            "TP0362",
            f"change {number} in {self.path} cannot be made: {reason}",
            where=str(self.path),
            fix=_WITHOUT,
        )

    def resume(self) -> None:
        """Goes on after the last whole record, or begins if there is none for this writing of the file."""
        records = self._records()
        if records:
            self._end = records[-1][1]
            os.truncate(self.path, self._end)
        else:
            self.begin()

    def _records(self) -> list[tuple[dict[str, Any], int]]:
        """The records, each with the place where it ends; none if the journal is of another writing."""
        found = list(_records(self.path)) if self.path.is_file() else []
        return found if found and found[0][0].get("base") == self.base else []


def _append(file: FileIO, end: int, record: bytes) -> None:
    """Writes a record whole, or leaves the file as it was."""
    try:
        written = 0
        while written < len(record):
            written += file.write(record[written:])
        os.fsync(file.fileno())
    except OSError:
        os.ftruncate(file.fileno(), end)
        raise


def _record(data: dict[str, Any]) -> bytes:
    body = json.dumps(data).encode()
    return f"{len(body):08x} {hashlib.sha256(body).hexdigest()[:16]} ".encode() + body + b"\n"


_HEAD = 8 + 1 + 16 + 1


def _records(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    data, at = path.read_bytes(), 0
    while at < len(data):
        head, start = data[at : at + _HEAD], at + _HEAD
        try:
            end = start + int(head[:8], 16)
        except ValueError:
            end = len(data) + 1
        body = data[start:end]
        if end + 1 > len(data):
            if b"\n" in data[at:-1]:
                raise _damaged(path, at)
            return
        if hashlib.sha256(body).hexdigest()[:16].encode() != head[9:25]:
            raise _damaged(path, at)
        record = json.loads(body)
        if not isinstance(record, dict):
            raise _damaged(path, at)
        at = end + 1
        yield record, at


def _damaged(path: Path, at: int) -> GraphFileError:
    return GraphFileError(
        "TP0361",
        f"{path} is damaged at byte {at}",
        where=str(path),
        fix=_WITHOUT,
    )


def _encoded(value: Any) -> Any:
    if isinstance(value, Tensor):
        data = base64.b64encode(as_bytes(value).numpy().tobytes()).decode()
        return {"tensor": [dtype_name(value.dtype), list(value.shape), data]}
    if isinstance(value, range):
        return {"range": [value.start, value.stop]}
    if isinstance(value, NeuronGroup):
        return {"group": [value.name, _encoded(value.takes), _encoded(value.gives)]}
    if isinstance(value, dict):
        return {"dict": {key: _encoded(item) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        return [_encoded(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return _encoded(torch.as_tensor(value))


def _decoded(data: Any) -> Any:
    if isinstance(data, list):
        return [_decoded(item) for item in data]
    if not isinstance(data, dict):
        return data
    ((kind, value),) = data.items()
    if kind == "tensor":
        dtype, shape, text = value
        raw = (
            torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8) if text else torch.empty(0)
        )
        return (
            raw.view(getattr(torch, dtype)).reshape(shape)
            if text
            else raw.to(getattr(torch, dtype)).reshape(shape)
        )
    if kind == "range":
        first, stop = value
        if not 0 <= first <= stop <= first + MOST_IDS:
            raise ValueError(f"{first} to {stop} is no range of ids")
        return range(first, stop)
    if kind == "group":
        return NeuronGroup(value[0], _decoded(value[1]), _decoded(value[2]))
    return {key: _decoded(item) for key, item in value.items()}
