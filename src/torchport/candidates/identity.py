"""Which tensor is which, while a run shows them one after another, and which two hold the same."""

from __future__ import annotations

from itertools import count
from weakref import ref

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from torchport.capture.torch_internals import storage_id
from torchport.trace.reading import as_bytes

TensorIdentity = tuple[int, int]
"""Which tensor it is, and how often it had been written to, or the hash of its values where that is not known."""
_BITS = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}
_IN_NUMPY = (torch.float32, torch.float64, *_BITS.values())


def identity_of(tensor: Tensor) -> TensorIdentity:
    """The identity of a tensor among those that are not freed."""
    return id(tensor), _writes_of(tensor)


def _writes_of(tensor: Tensor) -> int:
    """What is written to a tensor that was made in inference mode is not counted, so its values are looked at."""
    return hash(bytes_of(tensor)) if tensor.is_inference() else tensor._version


def bytes_of(tensor: Tensor) -> bytes:
    return as_bytes(tensor).numpy().tobytes()


class Identities:
    """The identities of all tensors of a run. One that was freed is not taken for another, made later in its place."""

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[ref[Tensor], int]] = {}
        self._count = count()

    def of(self, tensor: Tensor) -> TensorIdentity:
        known = self._numbers.get(id(tensor))
        if known is None or known[0]() is not tensor:
            known = self._numbers[id(tensor)] = ref(tensor), next(self._count)
        return known[1], _writes_of(tensor)


class Memory:
    """The memory that some tensors are in. What was freed of it is not taken for other memory, made later."""

    def __init__(self) -> None:
        self._pieces: dict[int, StorageWeakRef] = {}

    def add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._pieces:
            self._pieces[storage._cdata] = StorageWeakRef(storage)  # type: ignore[no-untyped-call]

    def __contains__(self, tensor: Tensor) -> bool:
        return storage_id(tensor) in self._pieces


def is_equal(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are in one place and have the same dtype, shape and values, of which none is NaN."""
    if one.dtype != other.dtype or one.device != other.device or one.shape != other.shape:
        return False
    if not (_is_for_numpy(one) and _is_for_numpy(other)):
        return torch.equal(one, other)
    return bool((one.detach().numpy() == other.detach().numpy()).all())


def _is_for_numpy(tensor: Tensor) -> bool:
    """Whether numpy can compare a tensor. It takes a fraction of the time of torch.equal."""
    is_known = type(tensor) in (Tensor, nn.Parameter) and tensor.dtype in _IN_NUMPY
    return is_known and tensor.device.type == "cpu" and not tensor.is_neg()


def has_same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two real tensors are in one place and have the same dtype, shape and bits, NaN and zeros included."""
    bits = _BITS.get(one.dtype, one.dtype)
    if one.is_complex() or one.dtype != other.dtype:
        return False
    return is_equal(one.detach().view(bits), other.detach().view(bits))
