"""Files of tensors: the names, shapes and dtypes in a file of each format, without reading the values.

In: a path. Out: Contents. The format is recognised by the first bytes of a file and not by its name.
"""

import json
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from torchport.errors import QuantError, WeightsError
from torchport.parity import dtypes
from torchport.parity.metrics import Form
from torchport.trace import safetensors_layout as layout
from torchport.trace.plan import output_key, returned_key
from torchport.weights import gguf, torch_zip
from torchport.weights.stored import InFile, InMemory, OpenFile, Stored
from torchport.weights.views import View

_ZIP, _PICKLE, _LFS, _GGUF = b"PK\x03\x04", b"\x80", b"version https://git-lfs", b"GGUF"
_DEEPEST, _MOST = 100, 10**7
_AS_SAFETENSORS = "Save its tensors as safetensors, or its state_dict alone with torch.save, and give that."


@dataclass(frozen=True)
class Contents:
    """The contents of a file: tensors by name in the order of the file, aliases of them, and names of non-tensors."""

    tensors: dict[str, Stored]
    aliases: dict[str, str] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    file: OpenFile | None = None
    """The file that must stay open while the tensors are read."""


def read(path: Path) -> Contents:
    """The contents of the file at `path`."""
    if not path.is_file():
        raise unreadable(path, "is not a file that can be read in parts")
    try:
        with path.open("rb") as file:
            head = file.read(len(_LFS))
    except OSError as error:
        raise unreadable(path, f"cannot be read: {error.strerror}") from error
    if not head:
        raise unreadable(path, "is empty")
    if head == _LFS:
        raise unreadable(path, "is a Git LFS pointer, not the file itself", fix="Run `git lfs pull`.")
    if head[8:9] == b"{":
        return _safetensors(path)
    if head.startswith(_ZIP):
        return _zipped(path)
    if head.startswith(_PICKLE):
        return _pickled(path)
    if head.startswith(_GGUF):
        return _gguf(path)
    raise unreadable(path, "is no file of tensors: neither safetensors nor a PyTorch checkpoint nor GGUF")


def unreadable(path: Path, what: str, fix: str | None = None) -> WeightsError:
    return WeightsError("TP0322", f"{path.name} {what}", where=str(path), fix=fix)


def flat(tensors: Any, path: Path, file: OpenFile | None = None) -> Contents:
    """The tensors of nested dicts, lists and tuples, with the keys on the way to each joined by dots."""
    found: dict[str, Stored] = {}
    skipped = []
    for name, value in _leaves(tensors, "", path, _Walk()):
        stored = _as_stored(value, name, path)
        if stored is None:
            skipped.append(name)
        elif name in found:
            raise unreadable(path, f"has two tensors that are called {name}")
        else:
            found[name] = stored
    return Contents(found, skipped=tuple(skipped), file=file)


def _as_stored(value: Any, name: str, path: Path) -> Stored | None:
    """A leaf as a tensor that can be read in parts; None if it is no tensor."""
    if isinstance(value, InFile | View):
        return value
    if isinstance(value, torch_zip.Unreadable):
        raise unreadable(path, f"has {name}, which is {value.kind}")
    torch = sys.modules.get("torch")  # Who has not imported it has no tensor of it.
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    if value.layout != torch.strided or value.is_quantized or value.is_meta:
        raise unreadable(path, f"has {name}, which is sparse, quantized or without values")
    return InMemory(value)


@dataclass
class _Walk:
    """A walk through what a pickle may have made: something that contains itself, or one thing again and again."""

    around: list[int] = field(default_factory=list)
    """The identities of the containers around the place where the walk is."""
    seen: int = 0


def _leaves(value: Any, name: str, path: Path, walk: _Walk) -> Iterator[tuple[str, Any]]:
    inner: Iterable[tuple[Any, Any]]
    walk.seen += 1
    if id(value) in walk.around:
        raise unreadable(path, f"has {name}, which contains itself")
    if len(walk.around) > _DEEPEST or walk.seen > _MOST:
        raise unreadable(path, f"has more than {_DEEPEST} levels or {_MOST} things in it, at {name[:80]}")
    if isinstance(value, Mapping):
        inner = value.items()
    elif isinstance(value, list | tuple):
        inner = enumerate(value)
    else:
        yield name or "tensor", value
        return
    walk.around.append(id(value))
    for key, one in inner:
        yield from _leaves(one, f"{name}.{key}" if name else str(key), path, walk)
    walk.around.pop()


def _safetensors(path: Path) -> Contents:
    try:
        header, metadata, start = layout.read_header(path)
    except (layout.NotSound, OSError) as error:
        raise unreadable(path, f"is cut off or no safetensors file: {error}") from error
    file = OpenFile(path)
    tensors: dict[str, Stored] = {}
    for name, one in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        dtype = layout.DTYPES.get(one["dtype"])
        if dtype is None or dtype not in dtypes.DTYPES:
            raise unreadable(path, f"has {name} in {one['dtype']}, which torchport cannot compare")
        form = Form(dtype, tuple(one["shape"]))
        tensors[name] = InFile(form, file, start + one["data_offsets"][0])
    aliases = _aliases(metadata, path)
    return Contents(tensors, aliases | _returned(metadata.get("root"), {*tensors, *aliases}), file=file)


def _returned(root: str | None, names: set[str]) -> dict[str, str]:
    """In a trace that does not have what the program gave in the end, that is what the model gave."""
    pairs = ((returned_key(root, index), output_key(root, index)) for index in count()) if root else ()
    there = takewhile(lambda pair: pair[1] in names, pairs)
    return {given: known for given, known in there if given not in names}


def _aliases(metadata: dict[str, str], path: Path) -> dict[str, str]:
    try:
        aliases = json.loads(metadata.get("aliases", "{}"))
    except json.JSONDecodeError as error:
        raise unreadable(path, f"has aliases that are not JSON: {error}") from error
    if not isinstance(aliases, dict):
        raise unreadable(path, "has aliases that are not a JSON object")
    return {str(name): str(target) for name, target in aliases.items()}


def _zipped(path: Path) -> Contents:
    with _kept_open(path) as file:
        try:
            return flat(torch_zip.load(file), path, file)
        except torch_zip.NeedsCode as error:
            raise _needs_code(path, str(error)) from error
        except torch_zip.Broken as error:
            raise unreadable(path, f"is cut off or no PyTorch checkpoint: {error}") from error


def _gguf(path: Path) -> Contents:
    with _kept_open(path) as file:
        try:
            return Contents(gguf.tensors(file), file=file)
        except QuantError as error:
            raise WeightsError("TP0322", error.message, where=str(path)) from error


@contextmanager
def _kept_open(path: Path) -> Iterator[OpenFile]:
    """A file that is closed only if the block fails."""
    file = OpenFile(path)
    try:
        yield file
    except BaseException:
        file.close()
        raise


def _pickled(path: Path) -> Contents:
    """A checkpoint as torch wrote it before 1.6, which can only be read as a whole."""
    import torch

    try:
        with warnings.catch_warnings(action="ignore"):
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises errors of many classes here.
        raise _not_loaded(path, str(error)) from error
    return flat(loaded, path)


def _not_loaded(path: Path, message: str) -> WeightsError:
    code = re.search(r"GLOBAL (\S+) was not an allowed", message)
    if code:
        return _needs_code(path, code[1])
    reason = re.search(r"WeightsUnpickler error:\s*(.+)", message) or re.match(
        r"\s*(.+?)(?:\. |\n|$)", message
    )
    return unreadable(path, f"is cut off or no PyTorch checkpoint: {reason[1] if reason else message}")


def _needs_code(path: Path, name: str) -> WeightsError:
    what = f"needs Python code to be loaded ({name}), which torchport does not run"
    return unreadable(path, what, fix=_AS_SAFETENSORS)
