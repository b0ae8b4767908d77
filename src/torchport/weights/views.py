"""Tensors that are made of other tensors while they are read: in another order, joined, or of another dtype.

None of them holds values. What is read of a tensor in a file is mapped only as long as it is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from torchport.errors import WeightsError
from torchport.parity import dtypes
from torchport.parity.bits import bits_dtype
from torchport.parity.metrics import Form
from torchport.weights.stored import InFile, InMemory, Stored

if TYPE_CHECKING:
    import torch

PIECE = 2**20
"""Elements that are read at a time."""
AHEAD = 8
"""Pieces that the system begins to read before they are asked for."""


@runtime_checkable
class InPieces(Protocol):
    """A tensor that is read fastest from its beginning to its end."""

    def pieces(self) -> Iterator[np.ndarray]:
        """The bits of all elements in order; what is given is overwritten when the next is asked for."""


def pieces(stored: Stored) -> Iterator[np.ndarray]:
    """The bits of all elements of a tensor in order; what is given is overwritten when the next is asked for."""
    if isinstance(stored, InPieces):
        yield from stored.pieces()
        return
    size = stored.form.numel
    room = np.empty(min(size, PIECE) * stored.form.itemsize, np.uint8)
    for start in range(0, size, PIECE):
        if isinstance(stored, InFile) and start % (AHEAD * PIECE) == 0:
            stored.expect(min(start + PIECE, size), min(start + 2 * AHEAD * PIECE, size))
        yield stored.bits(start, min(start + PIECE, size), room)


def whole(stored: Stored) -> np.ndarray:
    """The bits of all elements in their shape: mapped if they lie in a file in a row, and otherwise in memory."""
    dtype, shape = bits_dtype(stored.form.dtype), stored.form.shape
    if isinstance(stored, InFile) and stored.form.numel:
        mapped: np.ndarray = np.memmap(stored.file.path, np.uint8, "r", stored.offset, stored.nbytes)
        return mapped.view(dtype).reshape(shape)
    if isinstance(stored, InMemory):
        return stored.bits(0, stored.form.numel, np.empty(0, np.uint8)).reshape(shape)
    if isinstance(stored, View):
        return stored.mapped()
    values = np.empty(stored.form.numel, dtype)
    start = 0
    for piece in pieces(stored):
        values[start : start + len(piece)] = piece
        start += len(piece)
    return values.reshape(shape)


def as_tensor(stored: Stored) -> torch.Tensor:
    """All elements as a tensor of torch, in memory."""
    import torch

    bits = torch.from_numpy(np.array(whole(stored)).reshape(-1).view(np.uint8))
    return bits.view(dtypes.by_name(stored.form.dtype)).reshape(stored.form.shape)


@dataclass(frozen=True)
class View:
    """Elements of another tensor, as torch's strides and offset choose and order them."""

    base: Stored
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, stored: Stored) -> View:
        """The tensor itself as a view."""
        shape = stored.form.shape
        return stored if isinstance(stored, View) else cls(stored, shape, row_strides(shape), 0)

    @property
    def form(self) -> Form:
        return Form(self.base.form.dtype, self.shape)

    @property
    def is_a_row(self) -> bool:
        """Whether the elements lie one after the other."""
        return _is_row(self.shape, self.strides)

    def bits(self, start: int, stop: int, room: np.ndarray) -> np.ndarray:
        if self.is_a_row:
            return self.base.bits(self.offset + start, self.offset + stop, room)
        found: np.ndarray = self.mapped().flat[start:stop]
        return found

    def forget(self, start: int, stop: int) -> None:
        """Nobody knows which bytes of the file these elements share with others."""

    def mapped(self) -> np.ndarray:
        flat = whole(self.base).reshape(-1)[self.offset :]
        strides = [stride * flat.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(flat, self.shape, strides, writeable=False)

    def pieces(self) -> Iterator[np.ndarray]:
        size = math.prod(self.shape)
        if self.is_a_row and size == self.base.form.numel:
            yield from pieces(self.base)
            return
        if self.is_a_row:
            room = np.empty(min(size, PIECE) * self.form.itemsize, np.uint8)
            for start in range(0, size, PIECE):
                yield self.bits(start, min(start + PIECE, size), room)
            return
        if size:
            yield from _blocks(self.mapped())

    def permuted(self, axes: Sequence[int]) -> View:
        return replace(
            self,
            shape=tuple(self.shape[axis] for axis in axes),
            strides=tuple(self.strides[axis] for axis in axes),
        )

    def narrowed(self, axis: int, start: int, length: int) -> View:
        shape = tuple(length if at == axis else size for at, size in enumerate(self.shape))
        return replace(self, shape=shape, offset=self.offset + start * self.strides[axis])

    def with_axis(self, axis: int) -> View:
        """The same with an axis of length 1 more."""
        shape, strides = list(self.shape), list(self.strides)
        shape.insert(axis, 1)
        strides.insert(axis, 1)
        return replace(self, shape=tuple(shape), strides=tuple(strides))


def _blocks(values: np.ndarray) -> Iterator[np.ndarray]:
    """The elements of an array in any order of memory, a few rows at a time."""
    if values.ndim == 1 or values[0].size > PIECE:
        for part in values if values.ndim > 1 else _parts(values):
            yield from _blocks(part) if part.ndim > 1 else [np.ascontiguousarray(part)]
        return
    step = max(1, PIECE // max(1, values[0].size))
    for start in range(0, len(values), step):
        yield np.ascontiguousarray(values[start : start + step]).reshape(-1)


def _parts(values: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(values), PIECE):
        yield values[start : start + PIECE]


def _room(form: Form, count: int) -> np.ndarray:
    return np.empty(count * form.itemsize, np.uint8)


@dataclass(frozen=True)
class Joined:
    """Tensors of one dtype one after the other along an axis."""

    parts: tuple[Stored, ...]
    axis: int

    @property
    def form(self) -> Form:
        first = self.parts[0].form
        length = sum(part.form.shape[self.axis] for part in self.parts)
        shape = (*first.shape[: self.axis], length, *first.shape[self.axis + 1 :])
        return Form(first.dtype, shape)

    def bits(self, start: int, stop: int, room: np.ndarray) -> np.ndarray:
        lengths = [math.prod(part.form.shape[self.axis :]) for part in self.parts]
        row = sum(lengths)
        if row <= PIECE:  # Whole rows of each part, because there may be many that are short.
            first, last = (start // row, -(-stop // row)) if row else (0, 0)
            rows = [
                part.bits(first * length, last * length, _room(self.form, (last - first) * length))
                for part, length in zip(self.parts, lengths, strict=True)
            ]
            table = [bits.reshape(last - first, -1) for bits in rows]
            return np.concatenate(table, axis=1).reshape(-1)[start - first * row : stop - first * row]
        return np.concatenate(list(self._runs(start, stop, lengths, row)))

    def _runs(self, start: int, stop: int, lengths: Sequence[int], row: int) -> Iterator[np.ndarray]:
        """The elements in order, by the parts that they are in."""
        for at in range(start // row, -(-stop // row)):
            begin = at * row
            for part, length in zip(self.parts, lengths, strict=True):
                low, high = max(start, begin), min(stop, begin + length)
                if low < high:
                    place = at * length - begin
                    yield part.bits(low + place, high + place, _room(self.form, high - low))
                begin += length

    def forget(self, start: int, stop: int) -> None: ...

    def pieces(self) -> Iterator[np.ndarray]:
        if self.axis == 0:
            for part in self.parts:
                yield from pieces(part)
            return
        arrays = [whole(part) for part in self.parts]
        rows = math.prod(self.form.shape[: self.axis])
        flat = [array.reshape(rows, -1) for array in arrays]
        step = max(1, PIECE // max(1, sum(part.shape[1] for part in flat)))
        for start in range(0, rows, step):
            yield np.concatenate([part[start : start + step] for part in flat], axis=1).reshape(-1)


@dataclass(frozen=True)
class Cast:
    """Another tensor in another dtype. Raises a WeightsError if a finite value would not stay what it is."""

    base: Stored
    dtype: str
    name: str
    """The tensor's name, for the error."""

    @property
    def form(self) -> Form:
        return Form(self.dtype, self.base.form.shape)

    def bits(self, start: int, stop: int, room: np.ndarray) -> np.ndarray:
        own = np.empty((stop - start) * self.base.form.itemsize, np.uint8)
        return self._converted(self.base.bits(start, stop, own))

    def forget(self, start: int, stop: int) -> None:
        self.base.forget(start, stop)

    def pieces(self) -> Iterator[np.ndarray]:
        for piece in pieces(self.base):
            yield self._converted(piece)

    def _converted(self, bits: np.ndarray) -> np.ndarray:
        import torch

        old, new = dtypes.by_name(self.base.form.dtype), dtypes.by_name(self.dtype)
        given = torch.from_numpy(np.require(bits, requirements=["C", "W"]).view(np.uint8)).view(old)
        made = given.to(new)
        if new.is_floating_point and old.is_floating_point:
            lost = not is_wider(self.base.form.dtype, self.dtype) and bool(
                (made.isinf() & ~given.isinf()).any()
            )
        else:
            lost = not torch.equal(made.to(old), given)
        if lost:
            raise WeightsError(
                "TP0321",
                f"{self.name} has values that {self.dtype} cannot hold, and is of {self.base.form.dtype}",
                where=self.name,
                fix="Record the model with that dtype, or cast to one that holds them.",
            )
        return made.view(torch.uint8).numpy().view(bits_dtype(self.dtype))


_WIDER = {
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float32": ("float64",),
    "float8_e4m3fn": ("float16", "bfloat16", "float32", "float64"),
    "float8_e5m2": ("float16", "bfloat16", "float32", "float64"),
    "bool": ("uint8",),
    "int8": ("int16", "int32", "int64"),
    "uint8": ("int16", "int32", "int64"),
    "int16": ("int32", "int64"),
    "int32": ("int64",),
    "complex64": ("complex128",),
}


def is_wider(dtype: str, other: str) -> bool:
    """Whether every value of a dtype is also one of another."""
    return other in _WIDER.get(dtype, ())


def row_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of elements that lie one after the other."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _is_row(shape: Sequence[int], strides: Sequence[int]) -> bool:
    wanted = row_strides(shape)
    return math.prod(shape) == 0 or all(
        size == 1 or stride == row for size, stride, row in zip(shape, strides, wanted, strict=True)
    )
