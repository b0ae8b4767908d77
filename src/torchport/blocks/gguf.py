"""The GGUF format: header, metadata, tensor infos and the sizes of its types; read lazily, written as a stream.

In: a path. Out: what a file says of itself and the bytes of its tensors, mapped. What the bytes mean is not known here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np

from torchport.errors import QuantError
from torchport.files import atomic_write

MAGIC = b"GGUF"
VERSION = 3
ALIGNMENT = 32
MAX_AXES = 4


class BlockType(NamedTuple):
    """A type of tensor: its number in files, and how many elements a block of how many bytes holds."""

    number: int
    elements: int
    nbytes: int


TYPES: dict[str, BlockType] = {
    "f32": BlockType(0, 1, 4),
    "f16": BlockType(1, 1, 2),
    "q4_0": BlockType(2, 32, 18),
    "q4_1": BlockType(3, 32, 20),
    "q5_0": BlockType(6, 32, 22),
    "q5_1": BlockType(7, 32, 24),
    "q8_0": BlockType(8, 32, 34),
    "q2_k": BlockType(10, 256, 84),
    "q3_k": BlockType(11, 256, 110),
    "q4_k": BlockType(12, 256, 144),
    "q5_k": BlockType(13, 256, 176),
    "q6_k": BlockType(14, 256, 210),
    "i8": BlockType(24, 1, 1),
    "i16": BlockType(25, 1, 2),
    "i32": BlockType(26, 1, 4),
    "i64": BlockType(27, 1, 8),
    "f64": BlockType(28, 1, 8),
    "bf16": BlockType(30, 1, 2),
}
_BY_NUMBER = {type_.number: name for name, type_ in TYPES.items()}
_OTHERS = {
    9: "q8_1",
    15: "q8_k",
    16: "iq2_xxs",
    17: "iq2_xs",
    18: "iq3_xxs",
    19: "iq1_s",
    20: "iq4_nl",
    21: "iq3_s",
    22: "iq2_s",
    23: "iq4_xs",
    29: "iq1_m",
    34: "tq1_0",
    35: "tq2_0",
    39: "mxfp4",
}
"""Types that are not read, by the names that a message has for them."""

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9


class TensorInfo(NamedTuple):
    """A tensor in a file; its shape is in torch's order, the longest stride first."""

    name: str
    shape: tuple[int, ...]
    type: str
    offset: int
    """Where its bytes begin, from the beginning of the file."""
    nbytes: int


@dataclass(frozen=True)
class GgufFile:
    """What a file says of itself."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, TensorInfo]

    def blocks(self, name: str) -> np.ndarray:
        """The bytes of a tensor, mapped from the file."""
        info = self.tensors[name]
        if info.nbytes == 0:
            return np.empty(0, np.uint8)
        return np.memmap(self.path, np.uint8, "r", info.offset, (info.nbytes,))


def nbytes_of(type_: str, shape: Sequence[int]) -> int:
    """The bytes of a tensor of a type; its rows must be whole blocks."""
    block = TYPES[type_]
    width = shape[-1] if shape else 1
    if width % block.elements:
        raise ValueError(f"rows of {width} are no whole blocks of {block.elements}")
    return math.prod(shape) // block.elements * block.nbytes


def read_gguf(path: Path) -> GgufFile:
    """The header of a file, checked against the file's length; no values are read."""
    try:
        with path.open("rb") as file:
            return _Reader(path, file).read()
    except OSError as error:
        raise QuantError("TP0351", f"{path} cannot be read: {error.strerror}", where=str(path)) from error


class _Reader:
    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self._size = path.stat().st_size

    def read(self) -> GgufFile:
        if self._bytes(4) != MAGIC:
            raise self._wrong("it does not begin with GGUF")
        version = self._one("<I")
        if version not in (2, 3):
            raise self._wrong(f"its version is {version}, and only 2 and 3 are known")
        tensors, entries = self._count("tensors", 24), self._count("metadata", 13)
        metadata = self._metadata(entries)
        alignment = metadata.get("general.alignment", ALIGNMENT)
        if not isinstance(alignment, int) or alignment <= 0 or alignment % 8:
            raise self._wrong(f"its alignment is {alignment!r}")
        infos = [self._info() for _ in range(tensors)]
        start = -(-self._file.tell() // alignment) * alignment
        placed: dict[str, TensorInfo] = {}
        for info in infos:
            if info.name in placed:
                raise self._wrong(f"it has two tensors called {info.name!r}")
            if info.offset % alignment or start + info.offset + info.nbytes > self._size:
                raise self._wrong(f"tensor {info.name!r} lies outside the file, which is cut off or wrong")
            placed[info.name] = info._replace(offset=start + info.offset)
        return GgufFile(self._path, metadata, placed)

    def _metadata(self, entries: int) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        for _ in range(entries):
            key = self._string()
            if key in metadata:
                raise self._wrong(f"its metadata has {key!r} twice")
            metadata[key] = self._value(self._one("<I"), key)
        return metadata

    def _info(self) -> TensorInfo:
        name = self._string()
        axes = self._one("<I")
        if axes > MAX_AXES:
            raise self._wrong(f"tensor {name!r} has {axes} axes, and {MAX_AXES} are the most")
        shape = tuple(reversed([self._one("<Q") for _ in range(axes)]))
        number, offset = self._one("<I"), self._one("<Q")
        if number not in _BY_NUMBER:
            label = _OTHERS.get(number, f"type {number}")
            raise self._wrong(f"tensor {name!r} is of {label}; read are {', '.join(TYPES)}")
        try:
            nbytes = nbytes_of(_BY_NUMBER[number], shape)
        except ValueError as error:
            raise self._wrong(f"tensor {name!r}: {error}") from error
        return TensorInfo(name, shape, _BY_NUMBER[number], offset, nbytes)

    def _value(self, kind: int, key: str) -> Any:
        if kind in _SCALARS:
            return self._one(_SCALARS[kind])
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            inner = self._one("<I")
            if inner == _ARRAY:
                raise self._wrong(f"metadata {key!r} is an array of arrays")
            return [self._value(inner, key) for _ in range(self._count(f"metadata {key!r}", 1))]
        raise self._wrong(f"metadata {key!r} is of type {kind}, which is not known")

    def _count(self, what: str, least: int) -> int:
        """A number of things that take up at least some bytes each; more than the file holds are refused."""
        count: int = self._one("<Q")
        if count * least > self._size:
            raise self._wrong(f"it cannot hold {count} {what}")
        return count

    def _string(self) -> str:
        try:
            return self._bytes(self._count("bytes of text", 1)).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._wrong("a name in it is not UTF-8") from error

    def _one(self, form: str) -> Any:
        return struct.unpack(form, self._bytes(struct.calcsize(form)))[0]

    def _bytes(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) != count:
            raise self._wrong("it is cut off in its header")
        return data

    def _wrong(self, why: str) -> QuantError:
        return QuantError("TP0351", f"{self._path} cannot be read as GGUF: {why}", where=str(self._path))


class Written(Protocol):
    """A tensor to be written; its bytes are asked for once, when it is its turn."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def type(self) -> str: ...

    def data(self) -> np.ndarray: ...


def write_gguf(path: Path, tensors: Iterable[Written], metadata: Mapping[str, str | int | bool]) -> None:
    """Writes a file as a stream: no more than one tensor is in memory."""
    given = list(tensors)
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.write(MAGIC + struct.pack("<IQQ", VERSION, len(given), len(metadata)))
        for key, value in metadata.items():
            file.write(_text(key) + _metadata_value(value))
        offset = 0
        for tensor in given:
            _must_fit(tensor)
            axes = struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape))
            file.write(_text(tensor.name) + struct.pack("<I", len(tensor.shape)) + axes)
            file.write(struct.pack("<IQ", TYPES[tensor.type].number, offset))
            offset += _aligned(nbytes_of(tensor.type, tensor.shape))
        file.write(bytes(_aligned(file.tell()) - file.tell()))
        for tensor in given:
            _write_values(file, tensor)


def _must_fit(tensor: Written) -> None:
    if len(tensor.shape) > MAX_AXES:
        raise QuantError(
            "TP0352", f"{tensor.name} has {len(tensor.shape)} axes; GGUF holds {MAX_AXES}", where=tensor.name
        )


def _write_values(file: BinaryIO, tensor: Written) -> None:
    data = np.ascontiguousarray(tensor.data()).tobytes()
    expected = nbytes_of(tensor.type, tensor.shape)
    if len(data) != expected:
        raise ValueError(f"{tensor.name} had {len(data)} bytes where {expected} were said")
    file.write(data)
    file.write(bytes(_aligned(expected) - expected))


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _metadata_value(value: str | int | bool) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    return struct.pack("<II", 4, value)
