"""The weights of a capture as a store, from which one tensor at a time is read.

In: tensors in memory, or a safetensors file. Out: a store, which is also a `Mapping` from names to tensors, so that a
large model is never in memory twice.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from torchport.capture.graph import Graph, TensorMeta, Weight, dtype_name
from torchport.capture.torch_internals import storage_id
from torchport.errors import WeightsError
from torchport.trace import safetensors_layout as layout


class WeightStore(Protocol):
    """Tensors by name: what there is, the shape and dtype of each, and the values of one."""

    def names(self) -> Iterable[str]: ...

    def meta(self, name: str) -> TensorMeta:
        """The shape and dtype of a tensor, without reading its values; KeyError if there is none."""

    def read(self, name: str) -> torch.Tensor:
        """A tensor, which the store does not keep; KeyError if there is none."""


class Weights(Mapping[str, torch.Tensor]):
    """A `WeightStore` that is also a mapping: `weights[name]` reads one tensor."""

    @abstractmethod
    def names(self) -> Collection[str]: ...

    @abstractmethod
    def meta(self, name: str) -> TensorMeta: ...

    @abstractmethod
    def read(self, name: str) -> torch.Tensor: ...

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()


class MemoryWeights(Weights):
    """Tensors that are in memory: the model's own, not copies, so they change if the model is trained on."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]):
        self._tensors = tensors

    def names(self) -> Collection[str]:
        return self._tensors.keys()

    def meta(self, name: str) -> TensorMeta:
        tensor = self._tensors[name]
        return TensorMeta(tuple(tensor.shape), dtype_name(tensor.dtype))

    def read(self, name: str) -> torch.Tensor:
        return self._tensors[name]


def as_weights(tensors: Mapping[str, torch.Tensor]) -> Weights:
    """The store itself, or one over the tensors of any other mapping."""
    return tensors if isinstance(tensors, Weights) else MemoryWeights(tensors)


class SelectedWeights(Weights):
    """Some tensors of another store."""

    def __init__(self, store: WeightStore, names: Iterable[str]):
        self._store, self._names = store, dict.fromkeys(names)

    def names(self) -> Collection[str]:
        return self._names.keys()

    def meta(self, name: str) -> TensorMeta:
        return self._store.meta(self._known(name))

    def read(self, name: str) -> torch.Tensor:
        return self._store.read(self._known(name))

    def _known(self, name: str) -> str:
        if name not in self._names:
            raise KeyError(name)
        return name


class FileWeights(Weights):
    """Tensors in a safetensors file, of which each is mapped into memory while somebody holds it.

    `tied` has further names for tensors of the file, as `Weight.tied_to` says them.
    """

    def __init__(self, path: Path, tied: Mapping[str, str] | None = None):
        self.path = path
        self._header, self._start = _sound_header(path)
        self._stored_as = {name: name for name in self._header} | dict(tied or {})

    def names(self) -> Collection[str]:
        return self._stored_as.keys()

    def meta(self, name: str) -> TensorMeta:
        entry = self._entry(name)
        return TensorMeta(tuple(entry["shape"]), layout.DTYPES[entry["dtype"]])

    def read(self, name: str) -> torch.Tensor:
        entry = self._entry(name)
        begin, end = entry["data_offsets"]
        dtype: torch.dtype = getattr(torch, layout.DTYPES[entry["dtype"]])
        if begin == end:
            return torch.empty(entry["shape"], dtype=dtype)
        try:
            mapped = np.memmap(self.path, np.uint8, "c", self._start + begin, (end - begin,))
        except (OSError, ValueError) as error:
            raise _unreadable(self.path, error) from error
        values = torch.from_numpy(mapped)
        if (self._start + begin) % dtype.itemsize:
            values = values.clone()
        return values.view(dtype).reshape(entry["shape"])

    def _entry(self, name: str) -> dict[str, Any]:
        entry: dict[str, Any] = self._header[self._stored_as[name]]
        return entry


def stored_weights(path: Path, graph: Graph) -> Mapping[str, torch.Tensor]:
    """The weights in a file by every name that the graph has for them; tied ones are stored once."""
    tied = {name: weight.tied_to for name, weight in graph.weights.items() if weight.tied_to is not None}
    return FileWeights(path, tied) if graph.weights else {}


def _sound_header(path: Path) -> tuple[dict[str, Any], int]:
    """The header of a file, and where its values begin, once it is seen that the file is whole."""
    try:
        header, _, start = layout.read_header(path)
    except (OSError, layout.NotSound) as error:
        raise _unreadable(path, error) from error
    for name, entry in header.items():
        if entry["dtype"] not in layout.DTYPES:
            raise _unreadable(path, f"{name} is in {entry['dtype']}, which torch does not have")
    return header, start


def _unreadable(path: Path, error: Exception | str) -> WeightsError:
    return WeightsError("TP0322", f"the weights cannot be read: {error}", where=str(path))


def described(tensors: Mapping[str, torch.Tensor], kinds: Mapping[str, str]) -> dict[str, Weight]:
    """What a graph says of its weights: of tensors that are one, all but the first are tied to the first."""
    first: dict[Any, str] = {}
    result = {}
    for name, tensor in tensors.items():
        head = first.setdefault(identity(tensor), name)
        meta = TensorMeta(tuple(tensor.shape), dtype_name(tensor.dtype))
        result[name] = Weight(meta, kinds[name], None if head == name else head)
    return result


def identity(tensor: torch.Tensor) -> Any:
    """What two tensors have in common if and only if they are the same elements of the same memory."""
    return storage_id(tensor), tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype
