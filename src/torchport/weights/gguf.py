"""GGUF files as checkpoints: the tensors by name, those in blocks as the floats that they stand for, in parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from torchport.blocks.formats import FORMATS, Format, dequantise
from torchport.blocks.gguf import TYPES, TensorInfo, read_gguf
from torchport.parity.metrics import Form
from torchport.weights.stored import InFile, OpenFile, Stored

_AS_STORED = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
}
"""Types that torch has as well."""


@dataclass(frozen=True)
class Quantised:
    """A tensor in blocks, which is read as float32."""

    form: Form
    file: OpenFile
    offset: int
    format: Format

    def bits(self, start: int, stop: int, room: np.ndarray) -> np.ndarray:
        size, nbytes = self.format.size, self._nbytes
        first, last = start // size, -(-stop // size)
        blocks = np.empty((last - first, nbytes), np.uint8)
        self.file.fill(blocks.reshape(-1), self.offset + first * nbytes)
        values = dequantise(blocks, self.format).reshape(-1)
        found: np.ndarray = values[start - first * size : stop - first * size]
        return found

    def forget(self, start: int, stop: int) -> None:
        first, last = start // self.format.size, -(-stop // self.format.size)
        self.file.forget(self.offset + first * self._nbytes, (last - first) * self._nbytes)

    @property
    def _nbytes(self) -> int:
        return TYPES[self.format.name].nbytes


def tensors(file: OpenFile) -> dict[str, Stored]:
    """The tensors of a file by name. Raises a QuantError if it is not sound, or has what cannot be read."""
    return {name: _stored(file, info) for name, info in read_gguf(file.path).tensors.items()}


def _stored(file: OpenFile, info: TensorInfo) -> Stored:
    if info.type in FORMATS:
        return Quantised(Form("float32", info.shape), file, info.offset, FORMATS[info.type])
    return InFile(Form(_AS_STORED[info.type], info.shape), file, info.offset)
