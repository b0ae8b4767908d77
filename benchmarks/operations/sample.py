"""One call of an operation: the function, its arguments, and what torch computes from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch.utils import _pytree as pytree

_WIDE = frozenset({torch.float16, torch.bfloat16, torch.float32})


@dataclass(frozen=True)
class Sample:
    name: str
    """The operation, as the database calls it."""
    dtype: torch.dtype
    label: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_elementwise: bool = False
    raises: type[Exception] | None = None
    """What torch raises for the values, so that the port must refuse them, too."""
    as_views: bool = False
    """Whether the port gets its inputs as views out of order."""

    @property
    def title(self) -> str:
        return f"{self.name} {str(self.dtype).removeprefix('torch.')} {self.label}"

    @cached_property
    def _flat(self) -> tuple[list[Any], Any]:
        return pytree.tree_flatten((self.args, self.kwargs))

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors among the arguments, in order."""
        return [leaf for leaf in self._flat[0] if isinstance(leaf, torch.Tensor)]

    def call(self, *tensors: torch.Tensor, truth: bool = False) -> Any:
        """What the function gives for other tensors in the place of those of the sample."""
        leaves, spec = self._flat
        given = iter(tensors)
        filled = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        if truth:
            filled = [torch.float64 if isinstance(x, torch.dtype) and x in _WIDE else x for x in filled]
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return self.function(*args, **kwargs)

    def computed(self) -> list[torch.Tensor]:
        """What torch computes; it raises what torch raises."""
        return results(self.call(*[tensor.clone() for tensor in self.tensors]))

    def truth(self) -> list[torch.Tensor] | None:
        """What torch computes in float64; None if it cannot, or has nothing to add."""
        if all(tensor.dtype not in _WIDE for tensor in self.tensors):
            return None
        wide = [t.double() if t.dtype in _WIDE else t.clone() for t in self.tensors]
        try:
            return results(self.call(*wide, truth=True))
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            return None

    def changed(self, label: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Sample:
        """The same call with other tensors."""
        leaves, spec = self._flat
        args, kwargs = pytree.tree_unflatten(
            [change(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], spec
        )
        return replace(self, label=f"{self.label}, {label}", args=args, kwargs=kwargs)

    def in_views(self) -> Sample:
        return replace(self, label=f"{self.label}, views", as_views=True)


def results(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
