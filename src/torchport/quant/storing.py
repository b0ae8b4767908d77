"""The weights of a port as a GGUF file: some in blocks, the others as the floats that they are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from torchport.blocks.formats import AWQ, FORMATS, bytes_in, quantise, rounded
from torchport.blocks.gguf import write_gguf
from torchport.capture.graph import TensorMeta
from torchport.capture.weights import FileWeights
from torchport.errors import QuantError

Mix = Mapping[str, str]
"""The format of each weight that is in blocks; weights that are not in it stay floats."""
Importance = Mapping[str, np.ndarray]
"""How much the columns of a weight matter, for those of which it is known."""


TRANSPOSED = "torchport.transposed."
"""Before the name of a tensor in the metadata of a file: its axes are the other way round than in the model."""


class RowWeights(FileWeights):
    """The weights of a port, of which some are given with the outputs first, as blocks of their rows need them."""

    def __init__(self, path: Path, inputs_first: Iterable[str] = ()):
        super().__init__(path)
        self.inputs_first = frozenset(inputs_first)

    def meta(self, name: str) -> TensorMeta:
        meta = super().meta(name)
        return TensorMeta(meta.shape[::-1], meta.dtype) if name in self.inputs_first else meta

    def read(self, name: str) -> torch.Tensor:
        tensor = super().read(name)
        return tensor.T.contiguous() if name in self.inputs_first else tensor


@dataclass(frozen=True)
class _Stored:
    """A tensor of the file, which is made when it is written."""

    name: str
    shape: tuple[int, ...]
    type: str
    store: RowWeights
    importance: np.ndarray | None = None
    is_awq: bool = False

    def data(self) -> np.ndarray:
        tensor = self.store.read(self.name)
        if self.is_awq:
            return rounded(self.name, tensor.numpy(), AWQ, self.importance)
        if self.type in FORMATS:
            return quantise(self.name, tensor.numpy(), FORMATS[self.type], self.importance)
        if self.type != "f32":
            return tensor.contiguous().view(torch.int16).numpy()
        return _as_float32(self.name, tensor).contiguous().numpy()


def store(path: Path, model: str, weights: RowWeights, mix: Mix, importance: Importance) -> None:
    """Writes all weights to a GGUF file, those that the model has with the inputs first the other way round."""
    tensors = list(_tensors(weights, mix, importance))
    facts: dict[str, str | int | bool] = {"general.architecture": "torchport", "general.name": model}
    write_gguf(path, tensors, facts | {TRANSPOSED + name: True for name in sorted(weights.inputs_first)})


def stored_bytes(weights: RowWeights, mix: Mix) -> int:
    """What the weights take up, each in its format."""
    tensors = _tensors(weights, mix, {})
    return sum(bytes_in(AWQ if tensor.is_awq else tensor.type, tensor.shape) for tensor in tensors)


def _tensors(weights: RowWeights, mix: Mix, importance: Importance) -> Iterator[_Stored]:
    halves = {"float16": "f16", "bfloat16": "bf16"}
    for name in sorted(weights.names()):
        meta = weights.meta(name)
        shape = tuple(int(size) for size in meta.shape) or (1,)  # type: ignore[arg-type]
        form = mix.get(name, halves.get(meta.dtype, "f32"))
        is_awq = form == AWQ
        yield _Stored(name, shape, "f32" if is_awq else form, weights, importance.get(name), is_awq)


def _as_float32(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Integers and flags are floats in the file; what a float32 does not hold is refused."""
    single = tensor.to(torch.float32)
    if tensor.dtype != torch.float32 and not torch.equal(single.to(tensor.dtype), tensor):
        kind = str(tensor.dtype).removeprefix("torch.")
        raise QuantError(
            "TP0352", f"{name} is {kind} and has values that a float32 does not hold", where=name
        )
    return single


def error_of_weight(name: str, weights: RowWeights, form: str, importance: np.ndarray | None) -> np.ndarray:
    """The difference that a format makes to a weight."""
    rows = weights.read(name).numpy()
    difference: np.ndarray = rounded(name, rows, form, importance) - rows
    return difference


def digest_of(*files: Path) -> str:
    """A name for the content of files."""
    result = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            result.update(hashlib.file_digest(stream, "sha256").digest())
    return result.hexdigest()[:16]
