"""The inputs of a run from files or shapes, and its outputs to a file.

Inputs come from .npy, .pt and .safetensors files, or are random if only a shape is given. No file is ever run.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from torchport.errors import NeuronError, UsageError
from torchport.files import atomic_write
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.groups import Group
from torchport.targets.marble.running import device_of

_SHAPE = re.compile(r"\d+(?:[x,]\d+)*")
FORMATS = (".npy", ".pt", ".safetensors")


def inputs_from(core: Core, given: Sequence[str], seed: int) -> list[Tensor]:
    """A tensor for each input of the graph, in their order; a file with several tensors gives them by name."""
    wanted = core.graph.inputs
    if not given:
        needs = ", ".join(_described(group) for group in wanted)
        raise UsageError(
            "TP0801", f"the graph needs inputs: {needs}", fix="Give --input FILE or a shape for each."
        )
    named: dict[str, Tensor] = {}
    in_order: list[Tensor | str] = []
    for item in given:
        if _SHAPE.fullmatch(item):
            in_order.append(item)
            continue
        found = _read(Path(item))
        if isinstance(found, Tensor):
            in_order.append(found)
        elif len(found) == 1 and not set(found) & {group.name for group in wanted}:
            in_order += found.values()
        else:
            named |= _known(found, wanted, item)
    rest = [group for group in wanted if group.name not in named]
    if len(rest) != len(in_order):
        raise UsageError(
            "TP0801",
            f"the graph takes {len(wanted)} inputs, and {len(named) + len(in_order)} were given",
            fix=f"It takes {', '.join(_described(group) for group in wanted)}.",
        )
    generator = torch.Generator().manual_seed(seed)
    for group, value in zip(rest, in_order, strict=True):
        named[group.name] = value if isinstance(value, Tensor) else _random(group, value, generator)
    device = device_of(core)
    return [named[group.name].to(device) for group in wanted]


def _described(group: Group) -> str:
    form = group.results[0]
    return f"{group.name} ({form.dtype} {list(form.shape)})"


def _known(found: Mapping[str, Tensor], wanted: Sequence[Group], item: str) -> dict[str, Tensor]:
    names = [group.name for group in wanted]
    for name in found:
        if name not in names:
            raise UsageError(
                "TP0801",
                f"{item} has {name}, which is no input of the graph",
                fix=f"Inputs are {', '.join(names)}.",
            )
    return dict(found)


def _random(group: Group, text: str, generator: torch.Generator) -> Tensor:
    shape = [int(size) for size in re.split("[x,]", text)]
    dtype = getattr(torch, group.results[0].dtype)
    if not dtype.is_floating_point:
        raise UsageError(
            "TP0801",
            f"the input {group.name} is of {group.results[0].dtype}, and random numbers of that say nothing",
            fix="Give a file with the numbers.",
        )
    return torch.randn(shape, generator=generator).to(dtype)


def _read(path: Path) -> Tensor | dict[str, Tensor]:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(
            "TP0801",
            f"{path} is neither a shape such as 2x16 nor a .npy, .pt or .safetensors file",
        )
    try:
        loaded: Any = _LOADERS[suffix](path)
    except FileNotFoundError as error:
        raise UsageError("TP0801", f"there is no file {path}") from error
    except Exception as error:  # Each library has errors of its own for a file that it cannot read.
        first = (str(error).strip().splitlines() or [""])[0]
        raise NeuronError("TP0905", f"{path} cannot be read: {first}", where=str(path)) from error
    if isinstance(loaded, list | tuple) and len(loaded) == 1:
        loaded = loaded[0]
    is_named = isinstance(loaded, Mapping) and all(isinstance(one, Tensor) for one in loaded.values())
    if not (isinstance(loaded, Tensor) or (is_named and loaded)):
        raise NeuronError("TP0905", f"{path} has no tensor, but a {type(loaded).__name__}", where=str(path))
    return dict(loaded) if is_named else loaded


def _numpy(path: Path) -> Tensor:
    return torch.from_numpy(np.load(path, allow_pickle=False))


def _torch(path: Path) -> Any:
    with warnings.catch_warnings(action="ignore"):
        return torch.load(path, map_location="cpu", weights_only=True)


_LOADERS: dict[str, Callable[[Path], Any]] = {".npy": _numpy, ".pt": _torch, ".safetensors": load_file}


def must_be_writable_as(path: Path, count: int) -> None:
    """Raises if outputs cannot go to such a file."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError("TP0801", f"outputs cannot go to {path}", fix=f"Formats are {', '.join(FORMATS)}.")
    if path.suffix.lower() == ".npy" and count != 1:
        raise UsageError(
            "TP0801",
            f"a .npy file holds one tensor, and the graph gives {count}",
            fix="Give a .safetensors file.",
        )


def write_outputs(path: Path, outputs: Sequence[Tensor]) -> None:
    """Writes the outputs, whole or not at all: a list to a .pt file, output0, output1 … to a .safetensors file."""
    must_be_writable_as(path, len(outputs))
    plain = [value.detach().cpu().contiguous() for value in outputs]
    with atomic_write(path) as temporary:
        if path.suffix.lower() == ".npy":
            with temporary.open("wb") as file:
                np.save(file, _as_numpy(plain[0], path))
        elif path.suffix.lower() == ".pt":
            torch.save(plain, temporary)
        else:
            save_file({f"output{index}": value.clone() for index, value in enumerate(plain)}, temporary)


def _as_numpy(value: Tensor, path: Path) -> Any:
    try:
        return value.numpy()
    except TypeError as error:
        raise UsageError(
            "TP0801", f"numpy has no {value.dtype}, so {path} cannot hold it", fix="Give a .safetensors file."
        ) from error
