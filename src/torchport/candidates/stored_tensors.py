"""Tensors by key, the large ones in files, so that a comparison does not hold all that it has computed in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import torch
from torch import Tensor

from torchport.capture.torch_internals import plain_torch
from torchport.trace.reading import as_bytes

_BYTES_IN_MEMORY = 2**27
"""What all stores of a comparison hold in memory together; what is stored after that goes to files."""


@dataclass(frozen=True)
class _StoredTensor:
    path: Path
    dtype: torch.dtype
    shape: torch.Size

    def read(self) -> Tensor:
        """The tensor, mapped from its file: what is written to it does not reach the file.

        A mode that is on, such as one that widens what is computed, must not change how the file is read.
        """
        with plain_torch():
            flat = torch.from_file(str(self.path), shared=False, size=self.shape.numel(), dtype=self.dtype)
            return flat.reshape(self.shape)


class StoredTensors(MutableMapping[str, Tensor]):
    """A dict of tensors. Those in files are read anew each time that they are asked for, on the CPU."""

    def __init__(self, scratch: Scratch):
        self._scratch = scratch
        self._tensors: dict[str, Tensor | _StoredTensor] = {}

    def __getitem__(self, key: str) -> Tensor:
        found = self._tensors[key]
        return found.read() if isinstance(found, _StoredTensor) else found

    def __setitem__(self, key: str, tensor: Tensor) -> None:
        self.pop(key, None)
        self._tensors[key] = self._scratch.keep(tensor.detach())

    def __delitem__(self, key: str) -> None:
        self._scratch.drop(self._tensors.pop(key))

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __contains__(self, key: object) -> bool:
        return key in self._tensors

    def add(self, key: str, tensor: Tensor) -> None:
        """Adds a tensor to the one at a key, or puts it there."""
        self[key] = self[key].to(tensor.device) + tensor if key in self else tensor


class Scratch:
    """A folder for the tensors of a comparison, which all its stores share, and the memory that is left to them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._bytes_left = _BYTES_IN_MEMORY
        self._numbers = count()

    def store(self) -> StoredTensors:
        return StoredTensors(self)

    def keep(self, tensor: Tensor) -> Tensor | _StoredTensor:
        if tensor.nbytes <= self._bytes_left:
            self._bytes_left -= tensor.nbytes
            return tensor
        path = self.folder / str(next(self._numbers))
        as_bytes(tensor).numpy().tofile(path)
        return _StoredTensor(path, tensor.dtype, tensor.shape)

    def drop(self, kept: Tensor | _StoredTensor) -> None:
        if isinstance(kept, _StoredTensor):
            kept.path.unlink()
        else:
            self._bytes_left += kept.nbytes


class RenamedTensors(Mapping[str, Tensor]):
    """Tensors under other keys; a key that is not renamed stays as it is."""

    def __init__(self, tensors: Mapping[str, Tensor], names: Mapping[str, str]):
        self.tensors, self.names = tensors, names

    def __getitem__(self, key: str) -> Tensor:
        return self.tensors[self.names.get(key, key)]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.names.get(key, key) in self.tensors

    def __iter__(self) -> Iterator[str]:
        renamed = set(self.names.values())
        yield from (key for key, other in self.names.items() if other in self.tensors)
        yield from (key for key in self.tensors if key not in renamed and key not in self.names)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class ChosenTensors(Mapping[str, Tensor]):
    """Some of several tensors, with one that stands for those that are not there."""

    def __init__(self, keys: Iterable[str], *tensors: Mapping[str, Tensor], missing: Tensor):
        self.keys_chosen, self.tensors, self.missing = dict.fromkeys(keys), tensors, missing

    def __getitem__(self, key: str) -> Tensor:
        if key not in self.keys_chosen:
            raise KeyError(key)
        return next((some[key] for some in self.tensors if key in some), self.missing)

    def __contains__(self, key: object) -> bool:
        return key in self.keys_chosen

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys_chosen)

    def __len__(self) -> int:
        return len(self.keys_chosen)


@contextmanager
def scratch_folder() -> Iterator[Scratch]:
    """A folder for tensors, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="torchport-") as folder:
        yield Scratch(Path(folder))
