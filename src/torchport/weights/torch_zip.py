"""Checkpoints that torch.save wrote, read without torch and without running code.

A zip archive has a pickle, which says what there is, and the values of every storage in a file of its own. The pickle
may name only what is in a table here; whatever else it asks for is refused by name. Nothing is read of the values.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torchport.parity import dtypes
from torchport.parity.metrics import Form
from torchport.weights.stored import InFile, OpenFile, Stored
from torchport.weights.views import View

_LOCAL_HEADER = 30
_MOST_PICKLE = 2**30


class NeedsCode(Exception):
    """The pickle names something that would have to be imported and called."""


class Broken(Exception):
    """The file is no such checkpoint, or not a whole one."""


@dataclass(frozen=True)
class Unreadable:
    """A tensor whose elements do not lie in memory in a row, or nowhere."""

    kind: str


@dataclass(frozen=True)
class _Storage:
    """The values of one storage: where they begin in the file, how many bytes, and of which dtype, if that is known."""

    offset: int
    nbytes: int
    dtype: str | None


@dataclass(frozen=True)
class _Named:
    """Something of torch that a pickle names and that is no tensor: a dtype, a device, the class of a storage."""

    name: str


class _Callable:
    """What a pickle may call and cannot change: it could otherwise set the attributes of all that it can name."""

    __slots__ = ("_call",)
    _call: Callable[..., Any]

    def __init__(self, call: Callable[..., Any]) -> None:
        object.__setattr__(self, "_call", call)

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self._call(*given, **named)

    def __setattr__(self, name: str, value: Any) -> None:
        raise Broken(f"it would change {name} of what it calls")

    def __setstate__(self, state: Any) -> None:
        raise Broken("it would change what it calls")


def load(file: OpenFile) -> Any:
    """What the checkpoint holds: dicts, lists and plain values, in which every tensor is one that is in the file."""
    try:
        with zipfile.ZipFile(file.path) as archive:
            return _loaded(archive, file)
    except zipfile.BadZipFile as error:
        raise Broken(str(error)) from error


def _loaded(archive: zipfile.ZipFile, file: OpenFile) -> Any:
    entries = {entry.filename: entry for entry in archive.infolist()}
    names = [name for name in entries if name.endswith("/data.pkl")]
    if len(names) != 1:
        raise Broken("it is a zip archive without a data.pkl")
    root = names[0].removesuffix("data.pkl")
    if f"{root}constants.pkl" in entries:
        raise NeedsCode("TorchScript")
    if f"{root}byteorder" in entries and archive.read(f"{root}byteorder") != b"little":
        raise Broken("its numbers are not little-endian")
    if entries[names[0]].file_size > _MOST_PICKLE:
        raise Broken("its pickle has more than a gigabyte")
    try:
        return _Unpickler(archive.read(names[0]), root, entries, file).load()
    except (NeedsCode, Broken, zipfile.BadZipFile):
        raise
    except Exception as error:  # A pickle can be wrong in any way.
        raise Broken(f"its pickle cannot be read: {error}") from error


class _Unpickler(pickle.Unpickler):
    def __init__(
        self, data: bytes, root: str, entries: Mapping[str, zipfile.ZipInfo], file: OpenFile
    ) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self._root, self._entries, self._file = root, entries, file
        self._known: dict[str, _Storage] = {}
        made: dict[str, Callable[..., Any]] = {
            **_ALLOWED,
            "torch._utils._rebuild_tensor_v2": partial(_rebuilt, file),
            "torch._utils._rebuild_tensor_v3": partial(_rebuilt_untyped, file),
        }
        self._allowed = {name: _Callable(call) for name, call in made.items()}

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full in self._allowed:
            return self._allowed[full]
        if module in ("torch", "torch.storage") and (name in dtypes.DTYPES or name.endswith("Storage")):
            return _Named(name)
        raise NeedsCode(full)

    def persistent_load(self, given: Any) -> _Storage:
        """A storage: `("storage", its class, the name of its file, a device, how many elements)`."""
        kind, named, key, _, count = given
        if kind != "storage" or not isinstance(named, _Named) or not isinstance(count, int):
            raise Broken(f"it asks for {kind!r}")
        dtype = _STORAGES.get(named.name)
        if dtype is None and named.name != "UntypedStorage":
            raise Broken(f"it has a {named.name}")
        key = str(key)
        if key not in self._known:
            self._known[key] = self._placed(key, dtype)
        found = self._known[key]
        if count * (dtypes.DTYPES[dtype].itemsize if dtype else 1) > found.nbytes:
            raise Broken(f"storage {key} has {found.nbytes} bytes, and should have {count} elements")
        return _Storage(found.offset, found.nbytes, dtype)

    def _placed(self, key: str, dtype: str | None) -> _Storage:
        entry = self._entries.get(f"{self._root}data/{key}")
        if entry is None:
            raise Broken(f"storage {key} is not in it")
        if entry.compress_type != zipfile.ZIP_STORED:
            raise Broken(f"storage {key} is compressed")
        head = self._file.read(entry.header_offset, _LOCAL_HEADER)
        lengths = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        offset = entry.header_offset + _LOCAL_HEADER + lengths
        if head[:4] != b"PK\x03\x04" or offset + entry.file_size > self._file.size:
            raise Broken(f"storage {key} is not where the archive says")
        return _Storage(offset, entry.file_size, dtype)


def _rebuilt(
    file: OpenFile,
    storage: _Storage,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Stored | Unreadable:
    if storage.dtype is None:
        raise Broken("a tensor does not say of which dtype it is")
    return _tensor(file, storage, storage.dtype, offset, size, stride, metadata)


def _rebuilt_untyped(
    file: OpenFile,
    storage: _Storage,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    hooks: Any,
    dtype: _Named,
    metadata: Any = None,
) -> Stored | Unreadable:
    return _tensor(file, storage, dtype.name, offset, size, stride, metadata)


def _tensor(
    file: OpenFile,
    storage: _Storage,
    dtype: str,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    metadata: Any,
) -> Stored | Unreadable:
    if metadata:
        return Unreadable("conjugated, negated or of a class of its own")
    if dtype not in dtypes.DTYPES:
        return Unreadable(f"of {dtype}")
    numbers = (offset, *size, *stride)
    if len(size) != len(stride) or any(type(number) is not int or number < 0 for number in numbers):
        raise Broken(f"a tensor has the shape {size} and the strides {stride}")
    itemsize = dtypes.DTYPES[dtype].itemsize
    reached = 1 + sum((length - 1) * step for length, step in zip(size, stride)) if math.prod(size) else 0
    if (offset + reached) * itemsize > storage.nbytes:
        raise Broken("a tensor reaches beyond its storage")
    row = InFile(Form(dtype, (reached,)), file, storage.offset + offset * itemsize)
    view = View(row, tuple(size), tuple(stride), 0)
    return InFile(Form(dtype, tuple(size)), file, row.offset) if view.is_a_row else view


def _first(value: Any, *rest: Any) -> Any:
    return value


def _unreadable(kind: str, *given: Any) -> Unreadable:
    return Unreadable(kind)


_STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
_ALLOWED: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": OrderedDict,
    "builtins.set": set,
    "builtins.complex": complex,
    "torch.Size": tuple,
    "torch.serialization._get_layout": _Named,
    "torch.device": lambda *given: _Named(f"device {given}"),
    "torch._utils._rebuild_parameter": _first,
    "torch._utils._rebuild_parameter_with_state": _first,
    "torch._utils._rebuild_qtensor": partial(_unreadable, "quantized"),
    "torch._utils._rebuild_sparse_tensor": partial(_unreadable, "sparse"),
    "torch._utils._rebuild_meta_tensor_no_storage": partial(_unreadable, "without values"),
}
"""What a pickle may call by its full name, and what is called instead: none of it does more than to hold values."""
