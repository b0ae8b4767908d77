"""Operations in float64, also those that have no kernel for it on a device.

These are computed by their definition, by the operations that they are made of, or on the CPU, whichever is known
first. Which ones, and how, is kept for the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from torchport.candidates import precision
from torchport.capture.torch_internals import OpOverload, TorchDispatchMode, decompositions, pytree
from torchport.debug.kernel_diff.attention_truth import NoDefinition, by_definition, is_defined

REFUSED = (RuntimeError, NotImplementedError, TypeError, ValueError, AssertionError)
"""What is raised by an operation that does not take float64."""
AS_IT_IS = "in its own dtype, as nothing computes it in float64"
Used = dict[str, str]
"""By operation, how it was computed if it has no kernel in float64."""


class NoFloat64(Exception):
    """An operation cannot be computed in float64 in any way."""

    def __init__(self, func: OpOverload, used: Used) -> None:
        super().__init__(f"nothing computes {func} in float64")
        self.func, self.used = func, used


@dataclass(frozen=True)
class InFloat64:
    """A mode of computing: within, everything is in float64."""

    used: Used = field(default_factory=dict)

    @contextmanager
    def __call__(self, model: nn.Module | None = None) -> Iterator[None]:
        with precision.in_float64(model or nn.Module()), _NearestToFloat64(self.used):
            yield

    def described(self) -> str | None:
        """What was not computed by kernels in float64; None if everything was."""
        return "; ".join(f"{operation} {how}" for operation, how in self.used.items()) or None


class _NearestToFloat64(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within a mode that widens operands, what else is tried if an operation does not take them."""

    supports_higher_order_operators = True

    def __init__(self, used: Used) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.used = used

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if is_defined(func):
            return self._by_definition(func, args, given)
        try:
            return func(*args, **given)
        except REFUSED as error:
            if not isinstance(func, OpOverload) or func._schema.is_mutable or not _has_floats((args, given)):
                raise
            return self._in_another_way(func, args, given, error)

    def _by_definition(self, func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        try:
            found = by_definition(func, args, kwargs)
        except NoDefinition as error:
            raise NoFloat64(func, self.used) from error
        self.used[str(func)] = "by its definition"
        return found

    def _in_another_way(
        self, func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], refusal: Exception
    ) -> Any:
        ways: dict[str, Callable[..., Any]] = {
            "by the operations that it is made of": self._taken_apart,
            "on the CPU": _on_cpu,
        }
        for how, compute in ways.items():
            try:
                found = compute(func, args, kwargs)
            except (*REFUSED, NoFloat64):
                continue
            if found is not None:
                self.used[str(func)] = how
                return found
        raise NoFloat64(func, self.used) from refusal

    def _taken_apart(self, func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """None if torch does not know what an operation is made of."""
        parts = decompositions([func.overloadpacket]).get(func)
        if parts is None:
            return None
        with self:
            return parts(*args, **kwargs)


def _on_cpu(func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """None if all operands are on the CPU, where the operation has been refused already."""
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    devices = [tensor.device for tensor in tensors if tensor.device.type != "cpu"]
    if not devices:
        return None
    own_args, own_kwargs = pytree.tree_map_only(Tensor, lambda one: one.cpu(), (args, dict(kwargs)))
    found = func(*own_args, **own_kwargs)
    return pytree.tree_map_only(Tensor, lambda one: one.to(devices[0]), found)


def _has_floats(tree: Any) -> bool:
    return any(isinstance(leaf, Tensor) and leaf.is_floating_point() for leaf in pytree.tree_leaves(tree))


def one_rounding_apart(value: Tensor, dtype: torch.dtype) -> Tensor:
    """A value in a narrower dtype, each number one rounding from where it is, by turns up and down.

    What an operation gives for such operands is as far from its result as an honest kernel may be.
    """
    if dtype not in precision.NARROW or not value.is_floating_point():
        return value.to(dtype)
    signs = torch.ones(value.numel(), dtype=torch.float64, device=value.device)
    signs[1::2] = -1
    return (value.double() * (1 + signs.view(value.shape) * torch.finfo(dtype).eps)).to(dtype)
