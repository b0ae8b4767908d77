"""Backends that run a graph eagerly but for one fault. Needs torch alone, as scripts that import it do."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


@dataclass(frozen=True)
class Faulty:
    """A backend that goes wrong at one operation, always or under a condition."""

    op: str
    fault: str
    """A key of `FAULTS`; one that refuses does so before anything runs."""
    after: str | None = None
    """The operation that the first argument must come from, as if only the two fused were wrong."""
    least_size: int = 0
    """The size that the last axis of the result must have at the least."""
    dtype: torch.dtype | None = None
    """The dtype that the result must have."""

    def __call__(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        if self.fault == "refuses" and any(map(self.means, module.graph.nodes)):
            raise ValueError("this graph cannot be compiled")
        return _Running(module, self).run

    def means(self, node: torch.fx.Node) -> bool:
        """Whether the fault is at a node, as far as that can be said before it runs."""
        if node.op != "call_function" or str(node.target) != self.op:
            return False
        source = node.args[0]
        return self.after is None or (isinstance(source, torch.fx.Node) and str(source.target) == self.after)


class _Running(torch.fx.Interpreter):
    def __init__(self, module: torch.fx.GraphModule, backend: Faulty) -> None:
        super().__init__(module)
        self.backend = backend

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if not self._is_meant(n, result):
            return result
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return FAULTS[self.backend.fault](result, n.target, args, kwargs)

    def _is_meant(self, node: torch.fx.Node, result: Any) -> bool:
        if not self.backend.means(node):
            return False
        first = result[0] if isinstance(result, tuple) else result
        size = first.shape[-1] if first.dim() else 1
        return size >= self.backend.least_size and self.backend.dtype in (None, first.dtype)


def _on_first(change: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """A fault in the first result, which is the only one for most operations."""

    def fault(result: Any, op: Any, args: Any, kwargs: Any) -> Any:
        return (change(result[0]), *result[1:]) if isinstance(result, tuple) else change(result)

    return fault


def _scaled(result: Tensor) -> Tensor:
    return result * 1.01


def _last_column_zero(result: Tensor) -> Tensor:
    return torch.cat([result[..., :-1], torch.zeros_like(result[..., -1:])], -1)


def _swapped_rows(result: Tensor) -> Tensor:
    return result.roll(1, 0) if result.shape[0] > 1 else result + 1


def _tanh_gelu(result: Tensor, op: Any, args: Any, kwargs: Any) -> Tensor:
    return aten.gelu.default(args[0], approximate="tanh")


def _large_eps(result: Any, op: Any, args: Any, kwargs: Any) -> Any:
    return op(*args[:-1], 1e-2)


def _half_precision(result: Tensor) -> Tensor:
    return result.to(torch.bfloat16).to(result.dtype)


class _WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient * 1.1


def _raises(result: Any, op: Any, args: Any, kwargs: Any) -> Any:
    raise NotImplementedError(f"cannot lower a pattern of size {tuple(args[0].shape)}")


def _dies(result: Any, op: Any, args: Any, kwargs: Any) -> Any:
    os.kill(os.getpid(), signal.SIGSEGV)


def _aborts(result: Any, op: Any, args: Any, kwargs: Any) -> Any:
    os.abort()


FAULTS: dict[str, Callable[..., Any]] = {
    "scaled": _on_first(_scaled),
    "last column zero": _on_first(_last_column_zero),
    "swapped rows": _on_first(_swapped_rows),
    "half precision": _on_first(_half_precision),
    "tanh gelu": _tanh_gelu,
    "large eps": _large_eps,
    "wrong gradient": _on_first(_WrongGradient.apply),
    "raises": _raises,
    "refuses": lambda result, op, args, kwargs: result,
    "dies": _dies,
    "aborts": _aborts,
}
