"""Reading traces: safetensors files of the values that a run computed, one tensor at a time."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import torch
from safetensors import SafetensorError, safe_open

from torchport.errors import TraceError

_MAPPED_BYTES = 2**26
"""What is read of a file before it is opened anew, because its pages stay in memory as long as it is open."""


class Returned(NamedTuple):
    """What a program gave in the end: how many tensors, and the place in its source that hands them over."""

    number: int
    at: str | None


class Trace:
    """A memory-mapped trace. A key is a value's own, or an alias of another key in the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: Any = _open(path)
        self._bytes_read = 0
        metadata: dict[str, str] = self._file.metadata() or {}
        self.root = metadata.get("root")
        self.aliases = _aliases(metadata, path)
        self.events = _events(metadata, path)
        """The calls as they began and ended in the run; None if it does not say."""
        self.begun = _begun(metadata, path, self.events)
        """The calls that were made, at least those that have inputs; None if the run does not say."""
        self.returned = _returned(metadata, path)
        """What the program gave in the end; None if it did not come to its end, or does not say."""
        self._keys = frozenset(self._file.keys())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.__exit__(kind, error, traceback)

    def __contains__(self, key: str) -> bool:
        """Whether `key` has a tensor of its own."""
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        """The keys that have a tensor of their own."""
        return iter(self._keys)

    def resolve(self, key: str) -> str:
        """The key under which the tensor is stored: `key` itself, unless it is an alias."""
        seen = {key}
        while key not in self._keys and key in self.aliases:
            key = self.aliases[key]
            if key in seen:
                raise TraceError("TP0310", f"{self.path}: the alias {key} goes round in a circle")
            seen.add(key)
        return key

    def has(self, key: str) -> bool:
        return self.resolve(key) in self._keys

    def shape(self, key: str) -> tuple[int, ...]:
        """The shape of `key`, without its values."""
        return tuple(self._file.get_slice(self.resolve(key)).get_shape())

    def get(self, key: str) -> torch.Tensor:
        """The tensor of `key`, mapped from the file rather than read."""
        stored = self.resolve(key)
        if stored not in self._keys:
            raise TraceError("TP0311", f"{self.path} has no value for {key}", where=key)
        if self._bytes_read > _MAPPED_BYTES:
            self._file.__exit__(None, None, None)
            self._file, self._bytes_read = _open(self.path), 0
        tensor: torch.Tensor = self._file.get_tensor(stored)
        self._bytes_read += tensor.nbytes
        return tensor


class HeldTrace(Trace):
    """A trace that was not written to a file: its values are those of a mapping."""

    def __init__(
        self,
        name: str,
        values: Mapping[str, torch.Tensor],
        root: str,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.path = Path(name)
        self.root, self.events, self.begun, self.returned = root, None, None, None
        self.aliases = dict(aliases or {})
        self._values = values
        self._keys = frozenset(values)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """There is nothing to close."""

    def shape(self, key: str) -> tuple[int, ...]:
        return tuple(self.get(key).shape)

    def get(self, key: str) -> torch.Tensor:
        stored = self.resolve(key)
        if stored not in self._keys:
            raise TraceError("TP0311", f"{self.path} has no value for {key}", where=key)
        return in_a_row(self._values[stored])


def in_a_row(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as a file would hold it: the very same one, if it is on the CPU and in a row itself."""
    plain = tensor.detach() if tensor.requires_grad else tensor
    return plain.cpu().resolve_conj().resolve_neg().contiguous()


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor as a file would hold it."""
    row = in_a_row(tensor)
    # What torch calls contiguous may have any stride along an axis of length 1, and then has no view as bytes.
    return row.as_strided((row.numel(),), (1,)).view(torch.uint8)


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except FileNotFoundError as error:
        raise TraceError("TP0310", f"there is no trace at {path}", where=str(path)) from error
    except (SafetensorError, OSError) as error:
        raise TraceError(
            "TP0310",
            f"{path} is truncated or not a safetensors file: {error}",
            where=str(path),
        ) from error


def _aliases(metadata: dict[str, str], path: Path) -> dict[str, str]:
    try:
        aliases = json.loads(metadata.get("aliases", "{}"))
    except json.JSONDecodeError as error:
        raise TraceError("TP0310", f"{path}: the aliases are not JSON: {error}") from error
    if not isinstance(aliases, dict):
        raise TraceError("TP0310", f"{path}: the aliases are not a JSON object")
    return {str(key): str(target) for key, target in aliases.items()}


def _events(metadata: dict[str, str], path: Path) -> list[tuple[str, str]] | None:
    if "events" not in metadata:
        return None
    try:
        return [(str(kind), str(name)) for kind, name in json.loads(metadata["events"])]
    except (ValueError, TypeError) as error:
        raise TraceError("TP0310", f"{path}: the list of calls cannot be read: {error}") from error


def _begun(
    metadata: dict[str, str], path: Path, events: list[tuple[str, str]] | None
) -> frozenset[str] | None:
    """An earlier version wrote no events, but the names of the calls that have inputs."""
    if events is not None:
        return frozenset(name for kind, name in events if kind == "enter")
    if "begun" not in metadata:
        return None
    try:
        return frozenset(json.loads(metadata["begun"]))
    except (json.JSONDecodeError, TypeError) as error:
        raise TraceError("TP0310", f"{path}: the list of calls is not JSON: {error}") from error


def _returned(metadata: dict[str, str], path: Path) -> Returned | None:
    if "returned" not in metadata:
        return None
    try:
        said = json.loads(metadata["returned"])
        return Returned(int(said["number"]), said.get("at"))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TraceError("TP0310", f"{path}: what the program returned cannot be read: {error}") from error
