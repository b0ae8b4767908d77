"""`torchport unpack`: a checkpoint of few bits as the floats that it stands for, in a safetensors file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch

from torchport.capture.weights import FileWeights
from torchport.errors import UsageError
from torchport.quant.formats import FORMATS, dequantise
from torchport.quant.gguf import MAGIC, TYPES, GgufFile, read_gguf
from torchport.quant.packed import packed_layers, parts_of, unpack_layer
from torchport.trace.writing import write_tensors

_PLAIN = {"f32": torch.float32, "f16": torch.float16, "f64": torch.float64, "bf16": torch.bfloat16} | {
    name: getattr(torch, name.replace("i", "int")) for name in ("i8", "i16", "i32", "i64")
}


def unpack_file(file: Path, out: Path) -> dict[str, int]:
    """Writes the floats of a GGUF file, or of safetensors of AWQ or GPTQ; gives how many, and how many unpacked."""
    if file.suffix == ".gguf" or _begins_with_magic(file):
        tensors: Mapping[str, torch.Tensor] = _OfGguf(read_gguf(file))
    else:
        tensors = _OfPacked(FileWeights(file))
    write_tensors(out, tensors, {"format": "pt"})
    return {"tensors": len(tensors), "unpacked": tensors.unpacked}  # type: ignore[attr-defined]


def _begins_with_magic(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


class _OfGguf(Mapping[str, torch.Tensor]):
    def __init__(self, file: GgufFile) -> None:
        self._file = file
        self.unpacked = sum(info.type in FORMATS for info in file.tensors.values())

    def __iter__(self) -> Iterator[str]:
        return iter(self._file.tensors)

    def __len__(self) -> int:
        return len(self._file.tensors)

    def __getitem__(self, name: str) -> torch.Tensor:
        info, data = self._file.tensors[name], self._file.blocks(name)
        if info.type not in FORMATS:
            values = torch.from_numpy(np.array(data)).view(_PLAIN[info.type])
            return values.reshape(info.shape)
        width = info.shape[-1] // TYPES[info.type].elements * TYPES[info.type].nbytes
        return torch.from_numpy(dequantise(data.reshape(-1, width), FORMATS[info.type])).reshape(info.shape)


class _OfPacked(Mapping[str, torch.Tensor]):
    def __init__(self, weights: FileWeights) -> None:
        self._weights = weights
        layers = packed_layers(weights.names())
        if not layers:
            message = f"{weights.path} has no layer of AWQ or GPTQ, which have a qweight, and is no GGUF file"
            raise UsageError("TP0801", message)
        self.unpacked = len(layers)
        parts = {part for layer in layers for part in parts_of(layer)}
        self._names = {f"{layer}.weight": layer for layer in layers}
        self._names |= {name: "" for name in weights.names() if name not in parts}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> torch.Tensor:
        layer = self._names[name]
        return unpack_layer(self._weights, layer) if layer else self._weights.read(name)
