"""Forwards that torch.export cannot follow, replaced by a replay of the calls that they were seen to make.

In: a log of calls, and the modules at fault. Out: forwards that make the same calls again, joined by the operation
`torchport::unknown`, which export can follow; and the values that each unknown operation stands for.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from torchport.capture.call_log import ObservedCall, ObservedValue, TensorVersion, walk
from torchport.capture.graph import dtype_name
from torchport.capture.torch_internals import pytree


def _empty_results(
    inputs: list[torch.Tensor],
    label: str,
    sizes: list[int],
    ranks: list[int],
    dtypes: list[str],
    device: torch.device,
) -> list[torch.Tensor]:
    """Tensors without values, of the shapes that an unknown operation returned."""
    results, start = [], 0
    for rank, dtype in zip(ranks, dtypes, strict=True):
        results.append(torch.empty(sizes[start : start + rank], dtype=getattr(torch, dtype), device=device))
        start += rank
    return results


_library = torch.library.Library("torchport", "FRAGMENT")  # type: ignore[no-untyped-call]
_library.define(  # type: ignore[no-untyped-call]
    "unknown(Tensor[] inputs, str label, int[] sizes, int[] ranks, str[] dtypes, Device device) -> Tensor[]"
)
torch.library.register_fake("torchport::unknown", _empty_results, lib=_library)


class Replay:
    """The forwards of the modules at fault, and what their unknown operations returned."""

    def __init__(self, calls: Sequence[ObservedCall], blamed: Collection[torch.nn.Module]):
        self.calls: dict[torch.nn.Module, list[ObservedCall]] = {}
        for call in walk(calls):
            if call.module in blamed:
                self.calls.setdefault(call.module, []).append(call)
        self.turns: Counter[torch.nn.Module] = Counter()
        self.observed: dict[str, list[torch.Tensor]] = {}
        """The values that each unknown operation returned, by its label."""

    @contextmanager
    def instead(self) -> Iterator[None]:
        """Within, the modules at fault run the replay in place of their forward."""
        for module in self.calls:
            vars(module)["forward"] = self._forward(module)
        yield  # The caller puts the modules' attributes back.

    def _forward(self, module: torch.nn.Module) -> Callable[..., Any]:
        @functools.wraps(module.forward)
        def forward(*args: Any, **kwargs: Any) -> Any:
            calls = self.calls[module]
            call = calls[self.turns[module] % len(calls)]
            self.turns[module] += 1
            return self._repeat(call, args, kwargs)

        return forward

    def _repeat(self, call: ObservedCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Makes the calls that a module made, on this run's values; unknown operations give whatever else they took."""
        live: dict[TensorVersion, Any] = {}
        _note(live, call.given, pytree.tree_leaves((args, kwargs)))
        inputs = [value for value in live.values() if isinstance(value, torch.Tensor)]
        fresh: list[torch.Tensor] = []
        """What calls have returned since the last unknown operation."""
        count = 0

        def fill(leaves: Sequence[ObservedValue], wanted: Sequence[ObservedValue]) -> list[Any]:
            """The values for some leaves; an unknown operation gives those that are `wanted` from it."""
            nonlocal count
            if wanted:
                found = self._observe(f"{call.name}/{count}", [*inputs, *fresh], wanted)
                _note(live, wanted, found)
                fresh.clear()
                count += 1
            return [leaf.value if leaf.version is None else live[leaf.version] for leaf in leaves]

        for child in call.calls:
            missing = {
                leaf.version: leaf for leaf in child.given if leaf.version and leaf.version not in live
            }
            values = fill(child.given, list(missing.values()))
            child_args, child_kwargs = pytree.tree_unflatten(values, child.given_structure)
            result = pytree.tree_leaves(child.module(*child_args, **child_kwargs))
            _note(live, child.result, result)
            fresh += [value for value in result if isinstance(value, torch.Tensor)]
        everything = {leaf.version: leaf for leaf in call.result if leaf.version is not None}
        return pytree.tree_unflatten(fill(call.result, list(everything.values())), call.result_structure)

    def _observe(
        self, label: str, inputs: list[torch.Tensor], wanted: Sequence[ObservedValue]
    ) -> list[torch.Tensor]:
        tensors: list[torch.Tensor] = [leaf.value for leaf in wanted]
        self.observed[label] = tensors
        results: list[torch.Tensor] = torch.ops.torchport.unknown.default(
            inputs,
            label,
            [size for tensor in tensors for size in tensor.shape],
            [tensor.ndim for tensor in tensors],
            [dtype_name(tensor.dtype) for tensor in tensors],
            tensors[0].device,
        )
        return results


def _note(live: dict[TensorVersion, Any], leaves: Sequence[ObservedValue], values: Sequence[Any]) -> None:
    for leaf, value in zip(leaves, values, strict=True):
        if leaf.version is not None:
            live[leaf.version] = value
