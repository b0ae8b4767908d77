"""A reference adapter that also computes: it runs graphs with the arithmetic of an accelerator, emulated on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from torchport.arithmetic.classes import find_arithmetic
from torchport.arithmetic.emulation import Emulated
from torchport.capture.torch_internals import OpOverload, pytree
from torchport.debug.adapters.base import AcceleratorAdapter
from torchport.debug.adapters.capabilities import AcceleratorCapabilities
from torchport.debug.adapters.int8 import int8_products
from torchport.debug.nodes import tensors_of
from torchport.errors import CompileError, UsageError

FLUSHED = "flush_to_zero"


class IntegratedMockAdapter(AcceleratorAdapter):
    """Its kernels are slow, and wrong in ways that real ones are: KernelDiff has something to find."""

    def __init__(
        self,
        capabilities: AcceleratorCapabilities | None = None,
        *,
        arithmetic: str | None = None,
        flush_to_zero: bool = False,
        int8: bool = False,
        int8_limit: float | None = None,
        operations: Iterable[str] | None = None,
        strict: bool = False,
    ) -> None:
        """`arithmetic` is the class that sums and products are really computed in, whatever the capabilities promise.
        If it is not given, it is what they promise; if these are not given either, it is bf16_sums, or eager if
        flush_to_zero or int8 is asked for, and float32 is promised. `int8_limit` is the magnitude at which operands of
        8-bit products saturate. If `operations` are given, by name or pattern, others are computed as they are."""
        if int8_limit is not None and not int8_limit > 0:
            raise UsageError("TP1050", f"int8_limit is {int8_limit}", fix="give a number larger than 0")
        special = flush_to_zero or int8 or int8_limit is not None
        usual = "eager" if special else "bf16_sums"
        named = (capabilities.arithmetic if capabilities else usual) if arithmetic is None else arithmetic
        self.arithmetic = find_arithmetic(named)
        self.capabilities = capabilities or AcceleratorCapabilities("integrated_mock")
        self.strict = strict
        self.flush_to_zero = flush_to_zero
        self.operations = None if operations is None else frozenset(operations)
        self._int8 = int8_products(int8_limit) if int8 or int8_limit is not None else {}
        self.runs_kernels = special or not self.arithmetic.is_eager

    def compile(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        devices = {tensor.device.type for node in gm.graph.nodes for tensor in tensors_of(node)}
        if elsewhere := sorted(devices - {"cpu"}):
            raise CompileError(
                "TP1054",
                f"{self.name} emulates arithmetic on the CPU, and the graph is on {', '.join(elsewhere)}",
            )
        return super().compile(gm, example_inputs)

    def run_node(self, op: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if not self._is_emulated(op):
            return op(*args, **kwargs)
        with ExitStack() as modes:
            if self.flush_to_zero:
                modes.enter_context(Emulated(find_arithmetic(FLUSHED)))
            if isinstance(op, OpOverload) and op in self._int8 and _has_floats_only(args):
                return self._int8[op](*args, **kwargs)
            modes.enter_context(Emulated(self.arithmetic))
            return op(*args, **kwargs)

    def _is_emulated(self, op: object) -> bool:
        return self.operations is None or any(fnmatchcase(str(op), one) for one in self.operations)


def _has_floats_only(args: tuple[Any, ...]) -> bool:
    tensors = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, Tensor)]
    return all(tensor.is_floating_point() for tensor in tensors)
