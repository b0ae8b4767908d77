"""Tensors that are read a piece at a time: from a file, or from memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from torchport.errors import WeightsError
from torchport.parity import dtypes
from torchport.parity.bits import bits_dtype, bits_of
from torchport.parity.metrics import Form

if TYPE_CHECKING:
    import torch


class Stored(Protocol):
    """A tensor that can be read in parts, by flat index."""

    @property
    def form(self) -> Form: ...

    def bits(self, start: int, stop: int, room: np.ndarray) -> np.ndarray:
        """The bits of the elements from `start` to `stop`. `room` is an array of bytes that they may be written to."""

    def forget(self, start: int, stop: int) -> None:
        """Takes these elements out of the page cache: they will not be asked for again."""


class OpenFile:
    """A file that is open for reads at any place. It is not mapped: mapped pages would count as our memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY)
        if hasattr(os, "posix_fadvise"):
            # Told so, the system reads far ahead in larger steps, at a third of the usual cost.
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def close(self) -> None:
        os.close(self._descriptor)

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def fill(self, room: np.ndarray, offset: int) -> None:
        """Fills `room` with the bytes of the file from `offset` on."""
        view = room.data
        filled = 0
        while filled < len(view):
            count = os.preadv(self._descriptor, [view[filled:]], offset + filled)
            if count == 0:
                raise WeightsError("TP0322", f"{self.path} became shorter while it was read", str(self.path))
            filled += count

    def read(self, offset: int, length: int) -> bytes:
        room = np.empty(length, np.uint8)
        self.fill(room, offset)
        return room.tobytes()

    def expect(self, offset: int, length: int) -> None:
        """Has the system begin to read what will be asked for."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, offset, length, os.POSIX_FADV_WILLNEED)

    def forget(self, offset: int, length: int) -> None:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, offset, length, os.POSIX_FADV_DONTNEED)


@dataclass(frozen=True)
class InFile:
    """A tensor whose elements lie in a row in a file, from byte `offset` on."""

    form: Form
    file: OpenFile
    offset: int

    def expect(self, start: int, stop: int) -> None:
        size = self.form.itemsize
        self.file.expect(self.offset + start * size, (stop - start) * size)

    @property
    def nbytes(self) -> int:
        return self.form.numel * self.form.itemsize

    def bits(self, start: int, stop: int, room: np.ndarray) -> np.ndarray:
        dtype = bits_dtype(self.form.dtype)
        wanted = room[: (stop - start) * dtype.itemsize]
        self.file.fill(wanted, self.offset + start * dtype.itemsize)
        return wanted.view(dtype)

    def forget(self, start: int, stop: int) -> None:
        size = self.form.itemsize
        self.file.forget(self.offset + start * size, (stop - start) * size)


@dataclass(frozen=True)
class InMemory:
    """A tensor in memory, or one that torch has mapped from a file."""

    tensor: torch.Tensor

    @property
    def form(self) -> Form:
        return Form(dtypes.name_of(self.tensor.dtype), tuple(self.tensor.shape))

    def bits(self, start: int, stop: int, room: np.ndarray) -> np.ndarray:
        return self._bits[start:stop]

    def forget(self, start: int, stop: int) -> None: ...

    @cached_property
    def _bits(self) -> np.ndarray:
        return bits_of(self.tensor)
