"""Tensor files: written whole or not at all, read one tensor at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch

from torchport.errors import DiskError, TraceError
from torchport.files import atomic_write


def write_tensors(
    path: Path,
    tensors: Mapping[str, torch.Tensor],
    metadata: Mapping[str, str],
    *,
    aliases: Mapping[str, str] | None = None,
) -> None:
    """Writes a safetensors file; `aliases` are further names for tensors in it."""
    info = {**metadata, **({"aliases": json.dumps(aliases)} if aliases is not None else {})}
    with atomic_write(path) as temporary:
        try:
            safetensors.torch.save_file(_separate(tensors), temporary, metadata=info)
        except safetensors.SafetensorError as error:
            raise DiskError("TP0330", f"cannot write {path}: {error}", where=str(path)) from error


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise TraceError("TP0310", f"{path} cannot be read: {error}", where=str(path)) from error


def _separate(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Contiguous tensors on the CPU, none sharing memory with another, as the format wants them."""
    seen: set[int] = set()
    result = {}
    for name, tensor in tensors.items():
        flat = tensor.detach().cpu().contiguous()
        storage = flat.untyped_storage()
        if storage._cdata in seen or storage.nbytes() != flat.nbytes:
            flat = flat.clone()
        seen.add(flat.untyped_storage()._cdata)
        result[name] = flat
    return result
