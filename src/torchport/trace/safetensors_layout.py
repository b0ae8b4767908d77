"""The layout of a safetensors file: 8 bytes with the length of a JSON header, the header, the values in a row.

In: names, dtypes and shapes. Out: the header, and where each tensor lies. Imports no torch, so that files can be
looked into without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

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
_METADATA = "__metadata__"
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


def read_header(path: Path) -> tuple[dict[str, Any], int]:
    """The header of a file that is known to be sound, without its metadata; and where the values begin."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        described: dict[str, Any] = json.loads(file.read(length))
    described.pop(_METADATA, None)
    return described, 8 + length
