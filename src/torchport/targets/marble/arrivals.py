"""interim"""

from __future__ import annotations

import torch
from torch import Tensor

from torchport.targets.marble import works
from torchport.targets.marble.groups import Border, Kind, Memory, NeuronGraph, Port


class Arrivals:
    def __init__(self, graph: NeuronGraph) -> None:
        self.graph = graph
        self.ids: dict[str, list[Tensor]] = {}
        self.arriving: dict[str, list[Tensor]] = {}
        sizes = {f.name: f.example for f in graph.free}
        for group in graph.inputs:
            self._give(group)
        for step in graph.steps:
            if isinstance(step, Border):
                self.ids[step.name] = [self._of(step.value)]
            elif isinstance(step, Memory):
                self._give(step.group)
            else:
                for group in step.groups:
                    given = [self._of(p) for p in group.inputs]
                    self.arriving[group.name] = given
                    if group.kind is Kind.WIRING:
                        import dataclasses

                        opts = {k: (0 if k == "value" else v) for k, v in group.options.items()}
                        self.ids[group.name] = works.compute(
                            dataclasses.replace(group, options=opts), given, {}, sizes
                        )
                    else:
                        self._give(group)
                self.ids[step.name] = [self._of(p) for p in step.outputs]

    def _give(self, group) -> None:
        start = group.first
        found = []
        for form in group.results:
            found.append((torch.arange(start, start + form.size) + 1).reshape(form.shape))
            start += form.size
        self.ids[group.name] = found

    def _of(self, port: Port) -> Tensor:
        return self.ids[port.group][port.index]

    def of(self, port: Port) -> Tensor:
        return self._of(port) - 1

    def at(self, name: str) -> list[Tensor]:
        return [one - 1 for one in self.arriving.get(name, [])]


_CACHE: dict[int, Arrivals] = {}


def arrivals_of(graph: NeuronGraph) -> Arrivals:
    key = id(graph)
    if key not in _CACHE or _CACHE[key].graph is not graph:
        _CACHE.clear()
        _CACHE[key] = Arrivals(graph)
    return _CACHE[key]
