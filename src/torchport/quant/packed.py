"""Checkpoints of AWQ and GPTQ: matrices of 4 or 8 bits packed into int32, as the floats that they stand for.

In: the tensors of one layer (`qweight`, `qzeros`, `scales`, and `g_idx` for GPTQ). Out: its weight, as `Linear` has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np
import torch

from torchport.errors import QuantError

Packing = Literal["awq", "gptq"]
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight columns each 4 bits of an int32 are, from the lowest on."""
_PARTS = ("qweight", "qzeros", "scales")


def packed_layers(names: Iterable[str]) -> list[str]:
    """The paths of the layers that are packed, each with all of its parts."""
    known = set(names)
    paths = sorted(name.removesuffix(".qweight") for name in known if name.endswith(".qweight"))
    for path in paths:
        missing = [part for part in _PARTS if f"{path}.{part}" not in known]
        if missing:
            raise QuantError("TP0354", f"{path} has qweight and no {', '.join(missing)}", where=path)
    return paths


def parts_of(path: str) -> tuple[str, ...]:
    """The names of all tensors that a packed layer may have for its weight."""
    return tuple(f"{path}.{part}" for part in (*_PARTS, "g_idx"))


def unpack_layer(
    tensors: Mapping[str, torch.Tensor], path: str, *, zeros_less_one: bool = True
) -> torch.Tensor:
    """The weight of one layer of a checkpoint."""
    qweight, qzeros, scales = (tensors[f"{path}.{part}"] for part in _PARTS)
    g_idx = tensors.get(f"{path}.g_idx")
    return unpack(path, qweight, qzeros, scales, g_idx, zeros_less_one=zeros_less_one)


def unpack(
    path: str,
    qweight: torch.Tensor,
    qzeros: torch.Tensor,
    scales: torch.Tensor,
    g_idx: torch.Tensor | None = None,
    *,
    zeros_less_one: bool = True,
) -> torch.Tensor:
    """The weight of one layer, with the outputs first. Zeros of GPTQ are stored less one, but in its second version."""
    for name, tensor in (("qweight", qweight), ("qzeros", qzeros)):
        if tensor.dtype != torch.int32 or tensor.dim() != 2:
            message = f"{path}.{name} is {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
            raise QuantError("TP0354", f"{message}, and int32 of two axes is what is packed", where=path)
    packing, bits = _packing(path, qweight, qzeros, scales)
    groups, outputs = scales.shape
    zeros = _columns(qzeros.numpy(), bits, packing)
    if packing == "gptq":
        integers = _columns(np.ascontiguousarray(qweight.numpy().T), bits, packing).T
        # A stored 15 is a zero of 16, as kernels add the one to the unpacked number: it does not wrap.
        zeros = zeros + 1 if zeros_less_one else zeros
    else:
        integers = _columns(qweight.numpy(), bits, packing)
    inputs = len(integers)
    group_of = _groups(path, g_idx, inputs, groups)
    values = scales.to(torch.float32).numpy()
    weight = (integers.astype(np.float32) - zeros[group_of].astype(np.float32)) * values[group_of]
    if weight.shape != (inputs, outputs):
        raise QuantError("TP0354", f"the parts of {path} do not fit together", where=path)
    if not np.isfinite(weight).all():
        raise QuantError("TP0350", f"{path} has weights that are NaN or infinite", where=path)
    return torch.from_numpy(np.ascontiguousarray(weight.T))


def _packing(
    path: str, qweight: torch.Tensor, qzeros: torch.Tensor, scales: torch.Tensor
) -> tuple[Packing, int]:
    """Which of the two it is, and how many bits: AWQ packs outputs beside each other, GPTQ inputs."""
    outputs = scales.shape[1] if scales.dim() == 2 else 0
    if outputs == 0 or qzeros.shape[0] != scales.shape[0]:
        raise QuantError("TP0354", f"{path}.scales and {path}.qzeros have other groups", where=path)
    bits, rest = divmod(32 * qzeros.shape[1], outputs)
    if rest or bits not in (4, 8):
        raise QuantError(
            "TP0354", f"{path} has {32 * qzeros.shape[1] / outputs:g} bits; 4 and 8 are read", where=path
        )
    if qweight.shape[1] == outputs:
        return "gptq", bits
    if qweight.shape[1] * 32 == outputs * bits and bits == 4:
        return "awq", bits
    raise QuantError(
        "TP0354", f"{path}.qweight {list(qweight.shape)} is packed neither as AWQ nor as GPTQ", where=path
    )


def _columns(packed: np.ndarray, bits: int, packing: Packing) -> np.ndarray:
    """Each int32 as the integers in it, beside each other."""
    count = 32 // bits
    shifts = np.arange(count, dtype=np.uint32) * np.uint32(bits)
    parts = (np.ascontiguousarray(packed).view(np.uint32)[:, :, None] >> shifts) & np.uint32(2**bits - 1)
    if packing == "awq":
        places = np.empty(count, np.int64)
        places[list(_AWQ_ORDER)] = np.arange(count)
        parts = parts[:, :, places]
    return parts.reshape(len(packed), -1).astype(np.int32)


def _groups(path: str, g_idx: torch.Tensor | None, inputs: int, groups: int) -> np.ndarray:
    """The group of each input."""
    if g_idx is None:
        if groups == 0 or inputs % groups:
            raise QuantError("TP0354", f"{path} has {inputs} inputs in {groups} groups", where=path)
        return np.arange(inputs) // (inputs // groups)
    found = g_idx.numpy().astype(np.int64)
    if found.shape != (inputs,) or found.min() < 0 or found.max() >= groups:
        raise QuantError("TP0354", f"{path}.g_idx names groups that are not there", where=path)
    return found
