"""The torch target: the captured graph itself, run by PyTorch in this process.

It shows that the graph is all of the model, it is how a candidate in PyTorch is cut into slices, and it is the plainest
example of a target: the graph and the weights are two files, and an interpreter runs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from torchport.capture.graph import Graph, Node
from torchport.capture.hooks import UNKNOWN
from torchport.capture.interpret import Interpreter
from torchport.capture.manifest import read_manifest, write_manifest
from torchport.capture.plan import make_plan
from torchport.capture.weights import stored_weights
from torchport.errors import WeightsError
from torchport.events import Say
from torchport.targets.base import Artifact, Mode, Options, Repro, SourceMap, Stopped, Target, Timing, Todo
from torchport.targets.following import Follower
from torchport.targets.hunks import hunks
from torchport.targets.stopwatch import timed_here
from torchport.targets.torch.edits import carried, changes
from torchport.trace.plan import input_keys, operation_of
from torchport.trace.reading import Trace
from torchport.trace.writing import write_tensors

GRAPH = "graph.json"
_GENERATED = "generated.json"
WEIGHTS = "model.safetensors"


class TorchTarget:
    name = "torch"
    project = "graph"
    editable = GRAPH
    options = Options
    requirements = ()

    def supports(self, op: str) -> bool:
        return op != UNKNOWN

    def convert(
        self,
        graph: Graph,
        weights: Mapping[str, torch.Tensor] | None,
        folder: Path,
        options: Options,
    ) -> TorchArtifact:
        for name in (GRAPH, _GENERATED):
            write_manifest(folder / name, graph, extra={})
        if weights is not None:
            write_tensors(folder / WEIGHTS, _wanted(graph, weights, folder), {"format": "pt"})
        return TorchArtifact(folder)

    def open(self, folder: Path, name: str) -> TorchArtifact:
        return TorchArtifact(folder)


TARGET: Target = TorchTarget()


def _wanted(graph: Graph, weights: Mapping[str, torch.Tensor], folder: Path) -> dict[str, torch.Tensor]:
    names = [name for name, weight in graph.weights.items() if weight.tied_to is None]
    for name in names:
        if name not in weights:
            raise WeightsError("TP0320", f"the weights have no tensor {name!r}", where=str(folder))
    return {name: weights[name] for name in names}


def _unknown(graph: Graph) -> tuple[Todo, ...]:
    """The parts of the graph that nobody knows, because torch.export could not follow the model."""
    return tuple(
        Todo(
            op=node.op,
            layer=module.path or graph.root.class_name,
            source=node.source,
            reason="torch.export could not follow it",
        )
        for module in graph.modules.values()
        for node in module.nodes
        if node.op == UNKNOWN
    )


@dataclass
class TorchArtifact:
    """A graph in a file, which a user may edit, and its weights."""

    folder: Path

    @property
    def todos(self) -> tuple[Todo, ...]:
        return _unknown(self._graph(GRAPH))

    @property
    def stored(self) -> Path | None:
        return self.folder / WEIGHTS

    def sources(self, graph: Graph) -> SourceMap | None:
        return None

    def edits(self) -> tuple[str, ...]:
        before, now = ((self.folder / name).read_text(encoding="utf-8") for name in (_GENERATED, GRAPH))
        return hunks(before, now, GRAPH)

    def variants(self, edited: Artifact) -> Iterator[bool]:
        graph = self._graph(_GENERATED)
        made = edited.changes() if isinstance(edited, TorchArtifact) else []
        if (changed := carried(made, graph)) is not None:
            write_manifest(self.folder / GRAPH, changed, extra={})
            yield True
        write_manifest(self.folder / GRAPH, graph, extra={})
        yield False

    def changes(self) -> list[tuple[Node, Node]]:
        """The nodes that a user has changed, each before and after."""
        return changes(self._graph(_GENERATED), self._graph(GRAPH))

    def _graph(self, name: str) -> Graph:
        return read_manifest(self.folder / name)[0]

    def prepare(self, say: Say) -> None:
        self._graph(GRAPH)

    def run(self, golden: Path, mode: Mode, record: Path) -> Stopped | None:
        graph = self._graph(GRAPH)
        plan = make_plan(graph)
        weights = stored_weights(self.folder / WEIGHTS, graph)
        with Trace(golden) as trace:
            inputs = [trace.get(key).clone() for key in input_keys(plan.root, len(graph.root.inputs))]
        with Follower(golden, mode, record) as follower:
            nodes = any(operation_of(key) is not None for key in follower.golden)
            try:
                outputs = Interpreter(graph, weights, plan, follower.watch, nodes=nodes).run(inputs)
            except Exception as error:  # An operation raises whatever torch raises for it.
                return Stopped(message=f"{type(error).__name__}: {error}")
            follower.returned(outputs, str(self.folder / GRAPH))
        return None

    def timed(self, golden: Path, threads: int, budget: float) -> Timing | None:
        graph = self._graph(GRAPH)
        plan, weights = make_plan(graph), stored_weights(self.folder / WEIGHTS, graph)
        with Trace(golden) as trace:
            inputs = [trace.get(key).clone() for key in input_keys(plan.root, len(graph.root.inputs))]
        machine = Interpreter(graph, weights, plan, lambda _, value: value)
        return timed_here(lambda: machine.run([one.clone() for one in inputs]), budget)

    def write_repro(self, golden: Path, limits: Sequence[float]) -> Repro:
        return Repro(_CANDIDATE, needs="")


_CANDIDATE = '''\
def candidate(inputs, here):
    """What the graph in ./graph computes."""
    from torchport.targets.torch.target import compute

    return compute(here / "graph", inputs)

'''


def compute(folder: Path, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of the graph in a folder."""
    graph, _ = read_manifest(folder / GRAPH)
    machine = Interpreter(
        graph, stored_weights(folder / WEIGHTS, graph), make_plan(graph), lambda _, value: value
    )
    return machine.run(inputs)
