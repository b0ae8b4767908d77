"""Models on the meta device: some with values beside those without, and runs with weights that come and go.

A model that does not fit in memory is run as it is, in its own code. The weights of each part of it are there only
while that part runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from torchport.capture.weights import MemoryWeights, Weights, as_weights

PART_BYTES = 2**26
"""Modules whose weights take less than this are filled together with those inside them."""
_TABLES = ("_parameters", "_buffers")
_READS_ITS_CHILDREN = (torch.nn.MultiheadAttention,)
"""Modules that read the weights of those inside them without calling them."""


@contextmanager
def all_on_meta(
    model: torch.nn.Module,
) -> Iterator[Callable[[Mapping[str, torch.Tensor]], Weights]]:
    """Within, a model of which a part is on the meta device is there as a whole, so that it can be traced.

    Gives a function that puts the values into weights that were traced. Nothing happens to a model that has all values.
    """
    named = _named(model)
    real = {name: tensor for name, tensor in named.items() if not tensor.is_meta}
    if not real or len(real) == len(named):
        yield as_weights
        return
    twins = {id(tensor): _on_meta(tensor) for tensor in real.values()}
    tables = [table for module in model.modules() for table in _tables_of(module)]
    before = [(table, dict(table)) for table in tables]
    for table in tables:
        table.update({name: twins[id(one)] for name, one in table.items() if id(one) in twins})
    try:
        yield lambda weights: MemoryWeights(
            {name: real[name].detach() if name in real else weights[name] for name in weights}
        )
    finally:
        for table, content in before:
            table.update(content)


@contextmanager
def filled(model: torch.nn.Module, weights: Weights) -> Iterator[None]:
    """Within, the parameters and buffers of a module on the meta device have values as long as the module runs."""
    parts = dict(_parts(model))
    handles = []
    for part, modules in parts.items():
        filling = _Filling(modules, weights)
        handles.append(part.register_forward_pre_hook(filling.begin))
        handles.append(part.register_forward_hook(filling.end, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Filling:
    """The tensors of some modules, filled when the call begins that needs them and emptied when the last one ends."""

    def __init__(self, modules: Mapping[str, torch.nn.Module], weights: Weights) -> None:
        self._modules, self._weights = modules, weights
        self._before: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._calls = 0

    def begin(self, *_: Any) -> None:
        self._calls += 1
        if self._calls > 1:
            return
        for path, module in self._modules.items():
            for table in _tables_of(module):
                found = {
                    name: _as_parameter(self._weights[full], tensor)
                    for name, tensor in table.items()
                    if tensor is not None
                    and tensor.is_meta
                    and (full := f"{path}.{name}" if path else name) in self._weights
                }
                if found:
                    self._before.append((table, {name: table[name] for name in found}))
                    table.update(found)

    def end(self, *_: Any) -> None:
        self._calls -= 1
        if self._calls == 0:
            for table, content in self._before:
                table.update(content)
            self._before.clear()


def _parts(
    module: torch.nn.Module, path: str = ""
) -> Iterator[tuple[torch.nn.Module, dict[str, torch.nn.Module]]]:
    """The modules that are filled together, by path, with the one whose calls they are filled for."""
    inside = {
        ".".join(filter(None, (path, name))): one
        for name, one in module.named_modules(remove_duplicate=False)
    }
    size = sum(tensor.nbytes for tensor in {id(one): one for one in _named(module).values()}.values())
    if size <= PART_BYTES or isinstance(module, _READS_ITS_CHILDREN):
        yield module, inside
        return
    yield module, {path: module}
    for name, child in module.named_children():
        yield from _parts(child, ".".join(filter(None, (path, name))))


def _named(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }


def _tables_of(module: torch.nn.Module) -> list[dict[str, Any]]:
    return [vars(module)[table] for table in _TABLES]


def _on_meta(tensor: torch.Tensor) -> torch.Tensor:
    empty = torch.empty_like(tensor, device="meta")
    return (
        torch.nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else empty
    )


def _as_parameter(values: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    return torch.nn.Parameter(values, False) if isinstance(before, torch.nn.Parameter) else values
