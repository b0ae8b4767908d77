"""Files of tensors: written whole or not at all, one tensor at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import safetensors.torch
import torch

from torchport.errors import CaptureError, TraceError
from torchport.files import atomic_write
from torchport.trace import safetensors_layout as layout
from torchport.trace.reading import as_bytes


def write_tensors(
    path: Path,
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, str],
    *,
    aliases: Mapping[str, str] | None = None,
) -> None:
    """Writes a safetensors file; `aliases` are further names for tensors in it.

    Each tensor is asked for twice, first for its shape and then for its values, and is not kept. So a mapping that
    reads its tensors from elsewhere when it is asked for them never has more than one of them in memory.
    """
    info = {**metadata, **({"aliases": json.dumps(aliases)} if aliases is not None else {})}
    entries = {name: form_in_file(name, tensors[name]) for name in tensors}
    names = layout.in_order(entries)
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.write(layout.header(entries, names, info))
        for name in names:
            _write_values(file, tensors[name], entries[name])


def form_in_file(name: str, tensor: torch.Tensor) -> layout.StoredForm:
    """The form of a tensor in a file; CaptureError if no file can hold it."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if not layout.can_hold(dtype):
        raise CaptureError("TP0205", f"{name} is of dtype {dtype}, which a safetensors file cannot hold")
    return layout.StoredForm(dtype, tensor.itemsize, tuple(tensor.shape))


def _write_values(file: BinaryIO, tensor: torch.Tensor, entry: layout.StoredForm) -> None:
    values = as_bytes(tensor).numpy()
    if values.nbytes != entry.nbytes:
        raise ValueError(f"a tensor of {entry.nbytes} bytes had {values.nbytes} when it was written")
    file.write(values.data)


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """All tensors of a file, by name."""
    try:
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise TraceError("TP0310", f"{path} cannot be read: {error}", where=str(path)) from error
