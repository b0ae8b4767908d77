"""torch's own database of operations: the one door to `torch.testing._internal`, which is private.

Needed of it (seen in torch 2.11 and 2.14): the list `op_db`, and of each entry `name`, `variant_test_name`, `dtypes`,
`op`, `sample_inputs(device, dtype)`, `reference_inputs` and `error_inputs(device)`. It imports `expecttest`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from .sample import Sample

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
)
"""The dtypes that an operation is run in, if it takes them."""


@dataclass(frozen=True)
class Entry:
    """One operation of the database."""

    name: str
    info: Any
    is_elementwise: bool

    def samples(self, dtype: torch.dtype) -> Iterator[Sample]:
        """Calls of the operation with tensors of a dtype; none if it does not take it."""
        if dtype not in self.info.dtypes:
            return
        torch.manual_seed(0)
        try:
            for number, given in enumerate(list(self.info.sample_inputs("cpu", dtype))):
                yield self._sample(given, dtype, f"sample {number}")
        except Exception:
            return  # Some samples cannot be made on this machine or in this dtype, although the entry has them.

    def raising(self) -> Iterator[Sample]:
        """Calls that torch refuses, each with the kind of error that it must be; none that only `out` is wrong for."""
        if self.info.error_inputs_func is None:
            return
        torch.manual_seed(0)
        try:
            for number, given in enumerate(list(self.info.error_inputs("cpu"))):
                sample = self._sample(given.sample_input, torch.float32, f"error {number}")
                dtype = next((tensor.dtype for tensor in sample.tensors), torch.float32)
                if "out" not in sample.kwargs:
                    yield replace(sample, dtype=dtype, raises=given.error_type)
        except Exception:
            return  # Some samples cannot be made on this machine, although the entry has them.

    def _sample(self, given: Any, dtype: torch.dtype, label: str) -> Sample:
        return Sample(
            self.name,
            dtype,
            label,
            self.info.op,
            (given.input, *given.args),
            dict(given.kwargs),
            self.is_elementwise,
        )


def entries() -> list[Entry]:
    """All of torch's database, in the order of its names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal import common_methods_invocations as database
        from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

    def name(info: Any) -> str:
        return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)

    found = [
        Entry(name(info), info, isinstance(info, UnaryUfuncInfo | BinaryUfuncInfo)) for info in database.op_db
    ]
    return sorted(found, key=lambda entry: entry.name)
