"""The weights of a port as a GGUF file: some in blocks, the others as the floats that they are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from torchport.capture.weights import FileWeights
from torchport.errors import QuantError
from torchport.quant.formats import FORMATS, quantise
from torchport.quant.gguf import TYPES, nbytes_of, write_gguf

Mix = Mapping[str, str]
"""The format of each weight that is in blocks; weights that are not in it stay floats."""
Importance = Mapping[str, np.ndarray]
"""How much the columns of a weight matter, for those of which it is known."""


@dataclass(frozen=True)
class _Stored:
    """A tensor of the file, which is made when it is written."""

    name: str
    shape: tuple[int, ...]
    type: str
    store: FileWeights
    importance: np.ndarray | None = None

    def data(self) -> np.ndarray:
        tensor = self.store.read(self.name)
        if self.type in FORMATS:
            return quantise(self.name, tensor.numpy(), FORMATS[self.type], self.importance)
        if self.type != "f32":
            return tensor.contiguous().view(torch.int16).numpy()
        return _as_float32(self.name, tensor).contiguous().numpy()


def store(
    path: Path, model: str, weights: FileWeights, mix: Mix, importance: Importance | None = None
) -> None:
    """Writes all weights to a GGUF file."""
    tensors = list(_tensors(weights, mix, importance or {}))
    write_gguf(path, tensors, {"general.architecture": "torchport", "general.name": model})


def stored_bytes(weights: FileWeights, mix: Mix) -> int:
    """What the tensors of the file will take up."""
    return sum(nbytes_of(tensor.type, tensor.shape) for tensor in _tensors(weights, mix, {}))


def _tensors(weights: FileWeights, mix: Mix, importance: Importance) -> Iterator[_Stored]:
    halves = {"float16": "f16", "bfloat16": "bf16"}
    for name in sorted(weights.names()):
        meta = weights.meta(name)
        shape = tuple(int(size) for size in meta.shape) or (1,)  # type: ignore[arg-type]
        type_ = mix.get(name) or halves.get(meta.dtype, "f32")
        yield _Stored(name, shape, type_, weights, importance.get(name))


def _as_float32(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Integers and flags are floats in the file; what a float32 does not hold is refused."""
    single = tensor.to(torch.float32)
    if tensor.dtype != torch.float32 and not torch.equal(single.to(tensor.dtype), tensor):
        kind = str(tensor.dtype).removeprefix("torch.")
        raise QuantError(
            "TP0352", f"{name} is {kind} and has values that a float32 does not hold", where=name
        )
    return single


def error_of_weight(name: str, weights: FileWeights, form: str, importance: np.ndarray | None) -> np.ndarray:
    """The difference that a format makes to a weight."""
    from torchport.quant.formats import dequantise

    rows = weights.read(name).numpy()
    difference: np.ndarray = dequantise(quantise(name, rows, FORMATS[form], importance), FORMATS[form]) - rows
    return difference


def digest_of(*files: Path) -> str:
    """A name for the content of files."""
    result = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            result.update(hashlib.file_digest(stream, "sha256").digest())
    return result.hexdigest()[:16]


assert set(FORMATS) <= set(TYPES)
