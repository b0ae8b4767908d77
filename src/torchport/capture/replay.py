"""Replaying what a model was seen to do, in place of forwards that torch.export cannot follow."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from torchport.capture.torch_internals import pytree
from torchport.capture.watching import Call, Leaf, Mark, walk

_library = torch.library.Library("torchport", "FRAGMENT")
_library.define(
    "unknown(Tensor[] inputs, str label, int[] sizes, int[] ranks, ScalarType[] dtypes, Device device)"
    " -> Tensor[]"
)


@torch.library.register_fake("torchport::unknown", lib=_library)
def _unknown(
    inputs: list, label: str, sizes: list, ranks: list, dtypes: list, device: torch.device
) -> list[torch.Tensor]:
    found, start = [], 0
    for rank, dtype in zip(ranks, dtypes, strict=True):
        found.append(torch.empty(sizes[start : start + rank], dtype=dtype, device=device))
        start += rank
    return found


class Replay:
    """Forwards that repeat the calls which a module was seen to make; what joins these is `unknown`."""

    def __init__(self, calls: Sequence[Call], blamed: Collection[torch.nn.Module]):
        self.calls: dict[torch.nn.Module, list[Call]] = {}
        for call in walk(calls):
            if call.module in blamed:
                self.calls.setdefault(call.module, []).append(call)
        self.turns: Counter[torch.nn.Module] = Counter()
        self.observed: dict[str, list[torch.Tensor]] = {}

    @contextmanager
    def instead(self) -> Iterator[None]:
        """Within, the modules at fault run the replay in place of their forward."""
        for module in self.calls:
            vars(module)["forward"] = self._forward(module)
        yield  # The caller puts the modules' attributes back.

    def _forward(self, module: torch.nn.Module) -> Callable:
        @functools.wraps(module.forward)
        def forward(*args: Any, **kwargs: Any) -> Any:
            seen = self.calls[module]
            call = seen[self.turns[module] % len(seen)]
            self.turns[module] += 1
            return self._repeat(call, args, kwargs)

        return forward

    def _repeat(self, call: Call, args: tuple, kwargs: dict) -> Any:
        live: dict[Mark, Any] = {}
        _note(live, call.given, pytree.tree_leaves((args, kwargs)))
        inputs = [value for value in live.values() if isinstance(value, torch.Tensor)]
        fresh: list[torch.Tensor] = []
        """What calls have given since the last unknown operation."""
        count = 0

        def fill(leaves: Sequence[Leaf], wanted: Sequence[Leaf]) -> list[Any]:
            nonlocal count
            if wanted:
                found = self._observe(f"{call.name}/{count}", [*inputs, *fresh], wanted)
                _note(live, wanted, found)
                fresh.clear()
                count += 1
            return [leaf.value if leaf.mark is None else live[leaf.mark] for leaf in leaves]

        for child in call.calls:
            missing = {leaf.mark: leaf for leaf in child.given if leaf.mark and leaf.mark not in live}
            values = fill(child.given, list(missing.values()))
            child_args, child_kwargs = pytree.tree_unflatten(values, child.given_structure)
            result = pytree.tree_leaves(child.module(*child_args, **child_kwargs))
            _note(live, child.result, result)
            fresh += [value for value in result if isinstance(value, torch.Tensor)]
        everything = {leaf.mark: leaf for leaf in call.result if leaf.mark is not None}
        return pytree.tree_unflatten(fill(call.result, list(everything.values())), call.result_structure)

    def _observe(self, label: str, inputs: list[torch.Tensor], wanted: Sequence[Leaf]) -> list[torch.Tensor]:
        tensors = [leaf.value for leaf in wanted]
        self.observed[label] = tensors
        return torch.ops.torchport.unknown.default(
            inputs,
            label,
            [size for tensor in tensors for size in tensor.shape],
            [tensor.ndim for tensor in tensors],
            [tensor.dtype for tensor in tensors],
            tensors[0].device,
        )


def _note(live: dict[Mark, Any], leaves: Sequence[Leaf], values: Sequence[Any]) -> None:
    for leaf, value in zip(leaves, values, strict=True):
        if leaf.mark is not None:
            live[leaf.mark] = value
