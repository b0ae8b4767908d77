"""The files that a checkpoint consists of, and the tensors in all of them by name.

In: a file, an index, or a folder with one checkpoint. Out: its files, which must all be there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchport.errors import UsageError, WeightsError
from torchport.weights.formats import Contents, unreadable
from torchport.weights.stored import Stored

_SHARD = re.compile(r"(.*)-(\d+)-of-(\d+)\.\w+")
_INDEX = ".index.json"
_ENDINGS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


@dataclass(frozen=True)
class Shards:
    """The files in order, and the file of each tensor, if an index says so."""

    kind: str
    files: tuple[Path, ...]
    index: dict[str, Path] | None = None


def shards_of(path: Path) -> Shards:
    """The files of the checkpoint that a path stands for."""
    if path.is_dir():
        return _in_folder(path)
    if not path.exists():
        raise unreadable(path, "is not there")
    return _indexed(path) if path.name.endswith(_INDEX) else Shards("file", (path,))


def files_in(folder: Path) -> list[Path]:
    """The files in a folder, by name."""
    try:
        return sorted(entry for entry in folder.iterdir() if entry.is_file())
    except OSError as error:
        raise unreadable(folder, f"cannot be read: {error.strerror}") from error


def only(found: Sequence[Path], folder: Path) -> Path:
    """The one file that was found; an error if there are several."""
    if len(found) > 1:
        names = ", ".join(path.name for path in found[:4]) + (" and more" if len(found) > 4 else "")
        message = f"{folder} has {len(found)} that could be meant: {names}"
        raise UsageError("TP0801", message, where=str(folder), fix="Give the path of one of them.")
    return found[0]


def together(
    files: Sequence[Path], parts: Sequence[Contents], index: Mapping[str, Path] | None
) -> dict[str, Stored]:
    """The tensors of all files by name. With an index, a tensor counts only in the file that the index names."""
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


def closed(parts: Iterable[Contents]) -> None:
    """Closes the files of all parts."""
    for part in parts:
        if part.file is not None:
            part.file.close()


def _in_folder(folder: Path) -> Shards:
    files = files_in(folder)
    if indexes := [path for path in files if path.name.endswith(_INDEX)]:
        return _indexed(only(indexes, folder))
    for ending in _ENDINGS:
        if found := [path for path in files if path.name.endswith(ending)]:
            return _numbered(found) or Shards("file", (only(found, folder),))
    raise unreadable(
        folder,
        "holds no tensors: no run, capture, index, safetensors file or PyTorch checkpoint",
        fix="Give a file, or a directory that one of these lies in.",
    )


def _indexed(path: Path) -> Shards:
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        by_name = {str(name): path.parent / str(file) for name, file in data["weight_map"].items()}
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(path, "is no index of a sharded checkpoint: it has no weight_map") from error
    files = tuple(sorted(set(by_name.values())))
    if not files:
        raise unreadable(path, "is an index of nothing: its weight_map is empty")
    if missing := [file.name for file in files if not file.is_file()]:
        raise unreadable(path, f"names shards that are not there: {', '.join(missing[:4])}")
    return Shards("sharded checkpoint", files, by_name)


def _numbered(found: Sequence[Path]) -> Shards | None:
    """The checkpoint without an index that these files are the shards of, or None if they are no shards."""
    parts = [_SHARD.fullmatch(path.name) for path in found]
    if len({(part[1], part[3]) if part else None for part in parts}) != 1 or parts[0] is None:
        return None
    wanted = int(parts[0][3])
    if len(found) != wanted:
        raise unreadable(found[0].parent, f"has {len(found)} of the {wanted} shards of {parts[0][1]}")
    return Shards("sharded checkpoint", tuple(found))
