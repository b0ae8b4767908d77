"""GGUF files: names, shapes and types of the tensors, and the values of quantised ones, a few blocks at a time.

A file has a header with metadata and the tensors' places, then the values. Sizes are listed from the fastest axis on.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from torchport.parity.metrics import Form
from torchport.weights.stored import InFile, OpenFile, Stored

_BLOCK = 32
_MOST_NAMES, _MOST_AXES = 2**24, 8
_AS_STORED = {
    0: "float32",
    1: "float16",
    24: "int8",
    25: "int16",
    26: "int32",
    27: "int64",
    28: "float64",
    30: "bfloat16",
}
"""Types that torch has as well."""
_TYPES = (
    "F32 F16 Q4_0 Q4_1 Q4_2 Q4_3 Q5_0 Q5_1 Q8_0 Q8_1 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ2_XXS IQ2_XS IQ3_XXS IQ1_S "
    "IQ4_NL IQ3_S IQ2_S IQ4_XS I8 I16 I32 I64 F64 IQ1_M BF16"
)
"""What the numbers of types stand for, from 0 on."""
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of each type of metadata but texts and lists."""
_TEXT, _LIST = 8, 9


class Broken(Exception):
    """The file is no GGUF file, not a whole one, or has what cannot be read."""


class _Packed(NamedTuple):
    """A type of blocks of 32 numbers: the bytes of a block, and the numbers of many of them."""

    nbytes: int
    decode: Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Quantised:
    """A tensor in blocks, which is read as float32."""

    form: Form
    file: OpenFile
    offset: int
    packed: _Packed

    def bits(self, start: int, stop: int, room: np.ndarray) -> np.ndarray:
        first, last = start // _BLOCK, -(-stop // _BLOCK)
        blocks = np.empty((last - first, self.packed.nbytes), np.uint8)
        self.file.fill(blocks.reshape(-1), self.offset + first * self.packed.nbytes)
        return self.packed.decode(blocks).reshape(-1)[start - first * _BLOCK : stop - first * _BLOCK]

    def forget(self, start: int, stop: int) -> None:
        size = self.packed.nbytes
        self.file.forget(self.offset + start // _BLOCK * size, -(-(stop - start) // _BLOCK) * size)


def tensors(file: OpenFile) -> dict[str, Stored]:
    """The tensors of a file by name. Raises `Broken` if there is one that cannot be read."""
    reader = _Reader(file)
    reader.skip(len(b"GGUF"))
    version = reader.take("<I")
    if version not in (2, 3):
        raise Broken(f"it is of version {version}; versions 2 and 3 are read")
    count, entries = reader.take("<Q"), reader.take("<Q")
    if count > _MOST_NAMES or entries > _MOST_NAMES:
        raise Broken(f"its header speaks of {count} tensors")
    alignment = 32
    for _ in range(entries):
        key, value = reader.text(), reader.value(reader.take("<I"))
        if key == "general.alignment":
            alignment = value or 0
    if alignment <= 0:
        raise Broken(f"its alignment is {alignment}")
    described = [reader.tensor() for _ in range(count)]
    start = -(-reader.at // alignment) * alignment
    found: dict[str, Stored] = {}
    for name, shape, kind, offset in described:
        if name in found:
            raise Broken(f"it has {name} twice")
        found[name] = _stored(file, name, shape, kind, start + offset)
    return found


def _stored(file: OpenFile, name: str, shape: tuple[int, ...], kind: int, offset: int) -> Stored:
    packed = _PACKED.get(kind)
    if packed is not None:
        if shape and shape[-1] % _BLOCK:
            raise Broken(f"{name} has rows of {shape[-1]}, which are no blocks of {_BLOCK}")
        form, nbytes = Form("float32", shape), math.prod(shape) // _BLOCK * packed.nbytes
    elif kind in _AS_STORED:
        form = Form(_AS_STORED[kind], shape)
        nbytes = form.numel * form.itemsize
    else:
        known = _TYPES.split()
        label = known[kind] if kind < len(known) else f"type {kind}"
        raise Broken(
            f"{name} is of {label}; read are F32, F16, BF16, F64, integers, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1"
        )
    if offset + nbytes > file.size:
        raise Broken(f"{name} lies behind the end of the file")
    return InFile(form, file, offset) if packed is None else Quantised(form, file, offset, packed)


class _Reader:
    """The header, from its beginning on."""

    def __init__(self, file: OpenFile) -> None:
        self.at, self._file, self._bytes = 0, file, file.size
        self._held, self._held_from = b"", 0

    def _read(self, length: int) -> bytes:
        if length > self._bytes - self.at:
            raise Broken("its header ends too early")
        inside = self.at - self._held_from
        if inside + length > len(self._held):
            self._held = self._file.read(self.at, min(max(length, 2**16), self._bytes - self.at))
            self._held_from, inside = self.at, 0
        self.at += length
        return self._held[inside : inside + length]

    def skip(self, length: int) -> None:
        self._read(length)

    def take(self, form: str) -> int:
        value: int = struct.unpack(form, self._read(struct.calcsize(form)))[0]
        return value

    def text(self) -> str:
        try:
            return self._read(self.take("<Q")).decode()
        except UnicodeDecodeError as error:
            raise Broken(f"a name in it is no UTF-8: {error}") from error

    def value(self, kind: int) -> int | None:
        """A value of the metadata, if it is a whole number; others are passed over."""
        if kind == _TEXT:
            self._read(self.take("<Q"))
        elif kind == _LIST:
            inner, length = self.take("<I"), self.take("<Q")
            if inner in _SIZES:
                self._read(_SIZES[inner] * length)
            elif length > _MOST_NAMES:
                raise Broken(f"its metadata has a list of {length}")
            else:
                for _ in range(length):
                    self.value(inner)
        elif kind in _SIZES:
            data = self._read(_SIZES[kind])
            return int.from_bytes(data, "little") if kind in (2, 4, 10) else None
        else:
            raise Broken(f"its metadata has a value of type {kind}")
        return None

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        """The name, shape, type and place of a tensor."""
        name, axes = self.text(), self.take("<I")
        if axes > _MOST_AXES:
            raise Broken(f"{name} has {axes} axes")
        sizes = tuple(self.take("<Q") for _ in range(axes))
        return name, sizes[::-1], self.take("<I"), self.take("<Q")


def _halves(blocks: np.ndarray, at: int) -> np.ndarray:
    """The float16 at a place of each block, as a column of float32."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view(np.float16).astype(np.float32)


def _nibbles(packed: np.ndarray) -> np.ndarray:
    """The lower halves of all bytes, then the upper ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=1)


def _with_fifth_bits(blocks: np.ndarray, at: int) -> Any:
    """Numbers of five bits: the fifth bits in four bytes, and behind them the nibbles."""
    high = np.unpackbits(blocks[:, at : at + 4], axis=1, bitorder="little")
    return _nibbles(blocks[:, at + 4 : at + 20]) | high << 4


def _q4_0(blocks: np.ndarray) -> Any:
    return (_nibbles(blocks[:, 2:]).astype(np.int8) - 8) * _halves(blocks, 0)


def _q4_1(blocks: np.ndarray) -> Any:
    return _nibbles(blocks[:, 4:]) * _halves(blocks, 0) + _halves(blocks, 2)


def _q5_0(blocks: np.ndarray) -> Any:
    return (_with_fifth_bits(blocks, 2).astype(np.int8) - 16) * _halves(blocks, 0)


def _q5_1(blocks: np.ndarray) -> Any:
    return _with_fifth_bits(blocks, 4) * _halves(blocks, 0) + _halves(blocks, 2)


def _q8_0(blocks: np.ndarray) -> Any:
    return np.ascontiguousarray(blocks[:, 2:]).view(np.int8) * _halves(blocks, 0)


_PACKED = {
    2: _Packed(18, _q4_0),
    3: _Packed(20, _q4_1),
    6: _Packed(22, _q5_0),
    7: _Packed(24, _q5_1),
    8: _Packed(34, _q8_0),
}
