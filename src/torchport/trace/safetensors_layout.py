"""The layout of a safetensors file: 8 bytes with the length of a JSON header, the header, the values in a row.

In: names, dtypes and shapes, or a file. Out: the header, and where each tensor lies. A file is read and never mapped: a
mapping of all of it counts against a limit of the address space, whatever is touched of it. Imports no torch, so that
files can be looked into without it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

DTYPES = {
    "U64": "uint64",
    "I64": "int64",
    "F64": "float64",
    "C64": "complex64",
    "F32": "float32",
    "U32": "uint32",
    "I32": "int32",
    "BF16": "bfloat16",
    "F16": "float16",
    "U16": "uint16",
    "I16": "int16",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
"""torch's name of each dtype that a file can hold, in the order in which files have them: the widest first."""
_CODES = {name: code for code, name in DTYPES.items()}
_ORDER = {name: place for place, name in enumerate(_CODES)}
_ITEMSIZES = {
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 8),
    **dict.fromkeys(("F32", "U32", "I32"), 4),
    **dict.fromkeys(("BF16", "F16", "U16", "I16"), 2),
    **dict.fromkeys(("F8_E5M2FNUZ", "F8_E4M3FNUZ", "F8_E8M0", "F8_E4M3", "F8_E5M2", "I8", "U8", "BOOL"), 1),
}
_METADATA = "__metadata__"
_LENGTH, _MOST_HEADER = 8, 100_000_000
"""The bytes of the header's length, and the most that a header may have, as safetensors itself has it."""
_ALIGNMENT = 8


@dataclass(frozen=True)
class StoredForm:
    """The dtype of a tensor by torch's name, the size of an element in bytes, and the shape."""

    dtype: str
    itemsize: int
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return self.itemsize * prod(self.shape)


def can_hold(dtype: str) -> bool:
    """Whether a file can hold tensors of a dtype, which is given by torch's name."""
    return dtype in _CODES


def in_order(entries: Mapping[str, StoredForm]) -> list[str]:
    """The names in the order of a file: wide dtypes first, so that every tensor is aligned, and then by name."""
    return sorted(entries, key=lambda name: (_ORDER[entries[name].dtype], name))


def header(entries: Mapping[str, StoredForm], names: Sequence[str], metadata: Mapping[str, str]) -> bytes:
    """What a file begins with: the length of the header and the header, padded so that the values are aligned."""
    described: dict[str, Any] = {_METADATA: dict(metadata)}
    start = 0
    for name in names:
        entry = entries[name]
        end = start + entry.nbytes
        described[name] = {
            "dtype": _CODES[entry.dtype],
            "shape": list(entry.shape),
            "data_offsets": [start, end],
        }
        start = end
    text = json.dumps(described, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


class NotSound(ValueError):
    """The file is no safetensors file, or not a whole one; the message says what is wrong with it."""


class Header(NamedTuple):
    """What a file says of its tensors and of itself, and where the values begin."""

    tensors: dict[str, Any]
    metadata: dict[str, str]
    start: int


def read_header(path: Path) -> Header:
    """The header of a file, held against the file's length. The file is not mapped, however long it is.

    Raises NotSound if the values are not one after the other, without gaps, up to the end of the file.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(_LENGTH), "little")
        if size < _LENGTH or length > min(size - _LENGTH, _MOST_HEADER):
            raise NotSound(f"its header would have {length} bytes, and the file has {size}")
        text = file.read(length)
    try:
        described = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotSound(f"its header is no JSON: {error}") from error
    if not text.startswith(b"{") or not isinstance(described, dict):
        raise NotSound("its header is no JSON object")
    metadata = described.pop(_METADATA, None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise NotSound("its metadata are no texts by name")
    end = 0
    for name, entry in sorted(described.items(), key=lambda item: _begins(*item)):
        end = _ends(name, entry, end)
    if _LENGTH + length + end != size:
        raise NotSound(f"its tensors have {end} bytes, and the file has {size - _LENGTH - length} for them")
    return Header(described, metadata, _LENGTH + length)


def _begins(name: str, entry: Any) -> tuple[int, int]:
    try:
        begin, end = entry["data_offsets"]
        is_sound = type(begin) is type(end) is int and type(entry["dtype"]) is str
        if is_sound and all(type(size) is int and size >= 0 for size in entry["shape"]):
            return begin, end
    except (TypeError, ValueError, KeyError):
        pass
    raise NotSound(f"{name} has no dtype, shape and data_offsets")


def _ends(name: str, entry: Mapping[str, Any], begin: int) -> int:
    """Where a tensor ends, which must begin at `begin` and be as long as its dtype and shape say."""
    found, end = entry["data_offsets"]
    if found != begin:
        raise NotSound(f"{name} begins at {found}, and what is before it ends at {begin}")
    itemsize = _ITEMSIZES.get(entry["dtype"])
    if itemsize is not None and end - begin != itemsize * prod(entry["shape"]):
        raise NotSound(f"{name} is {entry['dtype']} {entry['shape']}, and has {end - begin} bytes")
    if end < begin:
        raise NotSound(f"{name} ends before it begins")
    return int(end)
