"""The native `.marble` file: arrays as safetensors, and in its header the structure as JSON, a version and a checksum.

Arrays are mapped into memory when a file is loaded. Nothing in a file is run: the structure is data, and its works are
looked up in the tables that conversion uses.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from torchport.errors import GraphFileError, TorchportError
from torchport.files import atomic_write
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.core.version import Version
from torchport.targets.marble.files.sound import must_be_sound
from torchport.targets.marble.stored import graph_data, graph_from
from torchport.trace.reading import as_bytes

FORMAT, VERSION = "torchport.marble", 1
STATE = "state:"
"""Before the names of what memories hold."""


def save(core: Core, path: Path) -> str:
    """Writes the graph as it is now, whole or not at all, and gives the name of this writing, which no other has."""
    version = core.version
    arrays = {name: _plain(array) for name, array in version.arrays.items()}
    arrays |= {f"{STATE}{name}": _plain(value) for name, value in core.state.items()}
    structure = json.dumps(
        {
            "graph": graph_data(version.graph),
            "next_id": version.next_id,
            "number": version.number,
            "names": core.names,
            "devices": {
                name: str(array.device)
                for name, array in version.arrays.items()
                if array.device.type != "cpu"
            },
        },
        allow_nan=False,
    )
    writing = uuid4().hex
    header = {"format": FORMAT, "version": str(VERSION), "structure": structure, "writing": writing}
    header["checksum"] = _checksum(structure, arrays)
    with atomic_write(path) as temporary:
        save_file(arrays, temporary, header)
    return writing


def _plain(array: Tensor) -> Tensor:
    """On the CPU, contiguous, and without memory that another array has."""
    return (
        array.detach().cpu().contiguous().clone()
        if array.storage_offset()
        else array.detach().cpu().contiguous()
    )


def load(path: Path, device: str | None = None) -> tuple[Core, str]:
    """The graph in a file, and the name of its writing; GraphFileError if the file cannot be trusted."""
    header, arrays = _read(path)
    data = _structure(header, path)
    if _checksum(header["structure"], arrays) != header.get("checksum"):
        raise _unreadable(
            path, "TP0364", "its checksum is wrong: it was changed or damaged after it was written"
        )
    try:
        graph = graph_from(data["graph"])
        version = Version(graph, _without_state(arrays), int(data["next_id"]), int(data["number"]))
        names = {str(name): str(array) for name, array in data["names"].items()}
        state = {name.removeprefix(STATE): value for name, value in arrays.items() if name.startswith(STATE)}
        must_be_sound(version, names, state)
    except TorchportError as error:
        raise _unreadable(path, "TP0362", error.message) from error
    except Exception as error:  # operations of torch raise all sorts for arguments that are not theirs
        raise _unreadable(path, "TP0362", f"{type(error).__name__}: {error!s:.200}") from error
    core = Core(graph, version.arrays, names=names, state=state)
    core.continue_from(version)
    return _placed(core, data.get("devices", {}), device), header.get("writing", "")


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("format") != FORMAT:
                raise _unreadable(path, "TP0361", "it is a safetensors file, but no graph of neurons")
            return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise _unreadable(path, "TP0360", "there is no such file") from error
    except OSError as error:
        raise _unreadable(path, "TP0360", error.strerror or str(error)) from error
    except (SafetensorError, UnicodeError, ValueError) as error:
        raise _unreadable(path, "TP0361", str(error)) from error


def _structure(header: Mapping[str, str], path: Path) -> dict[str, Any]:
    version = header.get("version", "")
    if not version.isdecimal() or len(version) > 6:
        raise _unreadable(path, "TP0362", f"its version is {version[:20]!r}")
    if int(version) > VERSION:
        raise GraphFileError(
            "TP0363",
            f"{path} is of version {version}, and this torchport reads up to {VERSION}",
            where=str(path),
            fix="Update torchport, or save the graph with the older one.",
        )
    try:
        data = json.loads(header["structure"], parse_constant=_finite, parse_float=_finite)
    except (KeyError, ValueError, RecursionError) as error:
        raise _unreadable(path, "TP0362", f"its structure is no JSON: {error!s:.200}") from error
    if not isinstance(data, dict):
        raise _unreadable(path, "TP0362", "its structure is no JSON object")
    return data


def _finite(text: str) -> float:
    """A number of JSON. Infinities and NaN among arguments are written in words (see `capture.arguments`)."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is no finite number")
    return number


def _without_state(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: array for name, array in arrays.items() if not name.startswith(STATE)}


def _placed(core: Core, devices: Any, device: str | None) -> Core:
    """On the device that was asked for, or else the one that it was on, if this machine has it."""
    if device is None and isinstance(devices, dict) and devices:
        wanted = sorted({str(name) for name in devices.values()})
        device = wanted[0] if len(wanted) == 1 and _is_here(wanted[0]) else None
        core.notes.append(f"arrays came from {', '.join(wanted)} and are on {device or 'cpu'}")
    return core.to(device) if device is not None and device != "cpu" else core


def _is_here(device: str) -> bool:
    try:
        return torch.empty(0, device=device).device.type != "cpu"
    except (RuntimeError, AssertionError):
        return False


def _checksum(structure: str, arrays: Mapping[str, Tensor]) -> str:
    found = hashlib.sha256(structure.encode())
    for name in sorted(arrays):
        array = arrays[name]
        found.update(f"{name}\0{array.dtype}\0{list(array.shape)}\0".encode())
        found.update(as_bytes(array).numpy().data)
    return found.hexdigest()


def _unreadable(path: Path, code: str, why: str) -> GraphFileError:
    return GraphFileError(code, f"{path} cannot be read: {why}", where=str(path))
