"""`torchport unpack`: a checkpoint of few bits as the floats that it stands for, in a safetensors file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from torchport.blocks.gguf import MAGIC
from torchport.errors import UsageError
from torchport.quant.checkpoint_format import zeros_are_less_one
from torchport.quant.packed import packed_layers, parts_of, unpack_layer
from torchport.trace.writing import write_tensors
from torchport.weights.checkpoint import Checkpoint, opened
from torchport.weights.gguf import Quantised
from torchport.weights.stored import Stored
from torchport.weights.views import as_tensor


def unpack_file(path: Path, out: Path) -> dict[str, int]:
    """Writes the floats of a checkpoint of GGUF, AWQ or GPTQ; gives how many, and how many of them were packed."""
    with opened([path]) as checkpoint:
        tensors = _Unpacked(checkpoint, path)
        write_tensors(out, tensors, {"format": "pt"})
        return {"tensors": len(tensors), "unpacked": tensors.count}


class _Read(Mapping[str, torch.Tensor]):
    """The tensors of a checkpoint, each read when it is asked for."""

    def __init__(self, stored: Mapping[str, Stored]) -> None:
        self._stored = stored

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, name: str) -> torch.Tensor:
        return as_tensor(self._stored[name])


class _Unpacked(Mapping[str, torch.Tensor]):
    def __init__(self, checkpoint: Checkpoint, path: Path) -> None:
        self._stored = _Read(checkpoint.tensors)
        layers = packed_layers(checkpoint.tensors)
        in_blocks = sum(isinstance(stored, Quantised) for stored in checkpoint.tensors.values())
        self.count = len(layers) + in_blocks
        if not self.count and not _begins_with_magic(checkpoint.files[0]):
            message = f"{path} has no layer of AWQ or GPTQ, which have a qweight, and is no GGUF file"
            raise UsageError("TP0801", message)
        self._less_one = not layers or zeros_are_less_one(checkpoint.files[0].parent)
        parts = {part for layer in layers for part in parts_of(layer)}
        self._names = {f"{layer}.weight": layer for layer in layers}
        self._names |= {name: "" for name in checkpoint.tensors if name not in parts}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> torch.Tensor:
        layer = self._names[name]
        if not layer:
            return self._stored[name]
        return unpack_layer(self._stored, layer, zeros_less_one=self._less_one)


def _begins_with_magic(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC
