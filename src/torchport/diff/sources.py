"""Opening what can be compared by name: files of tensors, sharded checkpoints, captures, runs, dicts of tensors.

In: a path or a mapping. Out: a Source, whose tensors are read where they lie, and which says what files it took.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from torchport.diff import formats
from torchport.diff.formats import Contents
from torchport.diff.locate import locate
from torchport.diff.stored import Stored
from torchport.errors import ManifestError, WeightsError

Given = str | Path | Mapping[str, Any]
"""A path, or tensors by name, nested as they may be."""
Place = tuple[float, int, list[str | int]]


@dataclass(frozen=True)
class Source:
    """Tensors by name, the files they are in, and the manifest, where it is known how they were computed."""

    what: str
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
            tensors = _together(found.files, parts, found.index)
        except BaseException:
            _close(parts)
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
        _close(self.parts)

    def resolve(self, name: str) -> str | None:
        """The name under which a tensor is stored: `name` itself, or what it is an alias of."""
        seen = set()
        while name not in self.tensors:
            if name not in self.aliases or name in seen:
                return None
            seen.add(name)
            name = self.aliases[name]
        return name

    def order(self) -> Callable[[str], Place] | None:
        """Where a name comes in the order of execution; None where there is no manifest that could tell."""
        if self.manifest is None:
            return None
        from torchport.capture.manifest import read_manifest

        try:
            return _order(read_manifest(self.manifest)[1])
        except ManifestError:
            return None


def _together(
    files: Sequence[Path], parts: Sequence[Contents], index: Mapping[str, Path] | None
) -> dict[str, Stored]:
    """The tensors of all files, each under a name of its own and in the file that the index says."""
    tensors: dict[str, Stored] = {}
    held_by: dict[str, Path] = {}
    for file, part in zip(files, parts, strict=True):
        for name, tensor in part.tensors.items():
            if index is not None and index.get(name) != file:
                continue
            if name in tensors:
                raise WeightsError("TP0322", f"{name} is in {held_by[name].name} and {file.name}", str(file))
            tensors[name], held_by[name] = tensor, file
    if lacking := [name for name in index or () if name not in tensors]:
        name = lacking[0]
        message = (
            f"the index says that {name} is in {index[name].name}, which does not have it" if index else ""
        )
        raise WeightsError("TP0320", message, where=name)
    return tensors


def _close(parts: Iterable[Contents]) -> None:
    for part in parts:
        if part.file is not None:
            part.file.close()


def _order(manifest: dict[str, Any]) -> Callable[[str], Place]:
    """Entering a call shows its inputs; leaving it shows its operations, then its outputs."""
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
        """Operations are known by their call; what the manifest does not know of comes last."""
        if key in shown:
            return shown[key]
        call, _, node = key.rpartition("/")
        numbered: list[str | int] = [
            int(part) if part.isdigit() else part for part in re.split(r"(\d+)", node)
        ]
        return left.get(call, float("inf")), 0, numbered if call in left else []

    return place
