"""Opening sets of tensors to compare by name: files, sharded checkpoints, captures, runs, dicts of tensors.

In: a path or a mapping. Out: a Source, which names its files, and whose tensors are read only when they are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torchport.diff.locate import locate
from torchport.errors import ManifestError
from torchport.weights import formats
from torchport.weights.formats import Contents
from torchport.weights.shards import closed, together
from torchport.weights.stored import Stored

Given = str | Path | Mapping[str, Any]
"""A path, or tensors by name in dicts, lists and tuples of any depth."""
Place = tuple[float, int, list[str | int]]


@dataclass(frozen=True)
class Source:
    """Tensors by name, the files that they are in, and the manifest of the model that computed them, if it is known."""

    given: str
    """The path as the user gave it."""
    kind: str
    files: tuple[Path, ...]
    tensors: dict[str, Stored]
    aliases: dict[str, str]
    skipped: tuple[str, ...]
    manifest: Path | None
    parts: tuple[Contents, ...]

    @classmethod
    def open(cls, given: Given) -> Self:
        if isinstance(given, Mapping):
            memory = formats.flat(given, Path("the mapping"))
            return cls(
                "tensors in memory", "tensors", (), memory.tensors, {}, memory.skipped, None, (memory,)
            )
        found = locate(Path(given))
        parts: list[Contents] = []
        try:
            for file in found.files:
                parts.append(formats.read(file))
            tensors = together(found.files, parts, found.index)
        except BaseException:
            closed(parts)
            raise
        aliases = {name: target for part in parts for name, target in part.aliases.items()}
        skipped = tuple(name for part in parts for name in part.skipped)
        return cls(
            str(given), found.kind, found.files, tensors, aliases, skipped, found.manifest, tuple(parts)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        closed(self.parts)

    def resolve(self, name: str) -> str | None:
        """The name that a tensor is stored under: `name` itself, or the one that it is an alias of; None if neither."""
        seen = set()
        while name not in self.tensors:
            if name not in self.aliases or name in seen:
                return None
            seen.add(name)
            name = self.aliases[name]
        return name

    def order(self) -> Callable[[str], Place] | None:
        """A key to sort names in the order of execution, or None if no manifest tells that order."""
        if self.manifest is None:
            return None
        from torchport.capture.manifest import read_manifest

        try:
            return _order(read_manifest(self.manifest)[1])
        except ManifestError:
            return None


def _order(manifest: dict[str, Any]) -> Callable[[str], Place]:
    """The order of execution: entering a call shows its inputs, leaving it its operations and then its outputs."""
    inputs = {call["name"]: call["inputs"] for call in manifest["calls"]}
    outputs = {call["name"]: call["outputs"] for call in manifest["calls"]}
    shown: dict[str, Place] = {}
    left: dict[str, int] = {}
    for moment, (kind, call) in enumerate(manifest["events"]):
        for number, key in enumerate((inputs if kind == "enter" else outputs)[call]):
            shown.setdefault(key, (moment, 1 + number, []))
        if kind == "exit":
            left[call] = moment

    def place(key: str) -> Place:
        """The place of a name. An operation has the place of its call; a name that the manifest lacks comes last."""
        if key in shown:
            return shown[key]
        call, _, node = key.rpartition("/")
        numbered: list[str | int] = [
            int(part) if part.isdigit() else part for part in re.split(r"(\d+)", node)
        ]
        return left.get(call, float("inf")), 0, numbered if call in left else []

    return place
