"""A checkpoint, whatever files it is in: its tensors by name, none of which is read before it is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torchport.errors import WeightsError
from torchport.weights import formats
from torchport.weights.formats import Contents
from torchport.weights.shards import closed, shards_of, together
from torchport.weights.stored import Stored

_SHOWN_LEVELS = 2


@dataclass(frozen=True)
class Checkpoint:
    """The files that were opened, their tensors by name, and the names of what is no tensor."""

    files: tuple[Path, ...]
    tensors: dict[str, Stored]
    skipped: tuple[str, ...]

    def sections(self) -> dict[str, int]:
        """How many tensors are under each of the first names: `state_dict`, `ema.module`, …"""
        counts: Counter[str] = Counter()
        for name in self.tensors:
            parts = name.split(".")[:-1][:_SHOWN_LEVELS]
            counts.update([".".join(parts[: depth + 1]) for depth in range(len(parts))])
        return dict(counts)


@contextmanager
def opened(paths: Sequence[Path]) -> Iterator[Checkpoint]:
    """The checkpoint in some files, folders or indexes, open as long as the block runs."""
    parts: list[Contents] = []
    tensors: dict[str, Stored] = {}
    files: list[Path] = []
    try:
        for path in paths:
            shards = shards_of(path)
            own = []
            for file in shards.files:
                own.append(formats.read(file))
                parts.append(own[-1])
            found = together(shards.files, own, shards.index)
            if twice := sorted(found.keys() & tensors.keys()):
                raise WeightsError(
                    "TP0322", f"{twice[0]} is in {path.name} and in a checkpoint before it", where=str(path)
                )
            tensors |= found
            files += shards.files
        yield Checkpoint(tuple(files), tensors, tuple(name for part in parts for name in part.skipped))
    finally:
        closed(parts)
