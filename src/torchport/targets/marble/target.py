"""The marble target: a captured model as a graph of neurons and synapses, run in this process.

The folder of an artifact has the structure of the graph, which a user may edit, a copy of it as it was generated, and
the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict

from torchport.capture.control_flow import CONTROL_FLOW
from torchport.capture.graph import Graph
from torchport.errors import ConvertError, WeightsError
from torchport.events import Say
from torchport.files import write_atomically
from torchport.targets.base import Artifact, Mode, Options, Repro, SourceMap, Stopped, Target, Timing, Todo
from torchport.targets.following import Follower
from torchport.targets.hunks import hunks
from torchport.targets.marble.convert import convert
from torchport.targets.marble.edits import Change, carried, changes, with_changes_opened
from torchport.targets.marble.evaluate import Watch, by_groups, by_messages
from torchport.targets.marble.groups import NeuronGraph
from torchport.targets.marble.recipes import RECIPES
from torchport.targets.marble.resize import resized
from torchport.targets.marble.stored import (
    ARRAYS,
    STRUCTURE,
    load_arrays,
    load_graph,
    save_arrays,
    save_graph,
)
from torchport.targets.stopwatch import timed_here
from torchport.trace.plan import input_keys, operation_of
from torchport.trace.reading import Trace

_GENERATED = "generated.json"
_FACTS = "facts.json"


class MarbleOptions(Options):
    by: Literal["groups", "messages"] = "groups"
    """How the graph is evaluated: a call for each assembly of groups, or neuron by neuron along synapses."""
    opened: bool = False
    """Whether by groups each group is done on its own, and not its whole assembly by one operation."""


class Facts(BaseModel):
    """What was known when the graph was made and is not in it."""

    model_config = ConfigDict(frozen=True)

    by: Literal["groups", "messages"]
    opened: bool
    todos: tuple[Todo, ...]


class MarbleTarget:
    name = "marble"
    project = "marble"
    editable = STRUCTURE
    options = MarbleOptions
    requirements = ()

    def supports(self, op: str) -> bool:
        return op in RECIPES or op in CONTROL_FLOW

    def convert(
        self,
        graph: Graph,
        weights: Mapping[str, torch.Tensor] | None,
        folder: Path,
        options: MarbleOptions,
    ) -> MarbleArtifact:
        made = convert(graph, _example_shapes(graph))
        for name in (STRUCTURE, _GENERATED):
            save_graph(folder, made.graph, file=name)
        if weights is not None:
            save_arrays(folder, {**_wanted(graph, weights, folder), **made.made})
        artifact = MarbleArtifact(folder)
        artifact.keep(Facts(by=options.by, opened=options.opened, todos=made.todos))
        return artifact

    def open(self, folder: Path, name: str) -> MarbleArtifact:
        return MarbleArtifact(folder)


TARGET: Target = MarbleTarget()


def _example_shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    """The shapes of the inputs that the model was captured with."""
    sizes = {symbol.name: symbol.example for symbol in graph.symbols}
    known = {name: size for name, size in sizes.items() if size is not None}
    if len(known) < len(sizes):
        raise ConvertError(
            "TP0401",
            "the capture does not say which sizes its example inputs had",
            fix="record the model again with this version",
        )
    return {
        item.name: tuple(dim if isinstance(dim, int) else dim.evaluate(known) for dim in item.meta.shape)
        for item in graph.root.inputs
    }


def _wanted(graph: Graph, weights: Mapping[str, torch.Tensor], folder: Path) -> dict[str, torch.Tensor]:
    names = [name for name, weight in graph.weights.items() if weight.tied_to is None]
    for name in names:
        if name not in weights:
            raise WeightsError("TP0320", f"the weights have no tensor {name!r}", where=str(folder))
    return {name: weights[name] for name in names}


@dataclass
class MarbleArtifact:
    """A neuron graph in files: `neurons.json`, which a user may edit, and the arrays."""

    folder: Path

    @property
    def facts(self) -> Facts:
        return Facts.model_validate_json((self.folder / _FACTS).read_bytes())

    def keep(self, facts: Facts) -> None:
        write_atomically(self.folder / _FACTS, facts.model_dump_json(indent=1) + "\n")

    @property
    def todos(self) -> tuple[Todo, ...]:
        return self.facts.todos

    @property
    def stored(self) -> Path | None:
        return self.folder / ARRAYS

    def sources(self, graph: Graph) -> SourceMap | None:
        return None

    def edits(self) -> tuple[str, ...]:
        before, now = ((self.folder / name).read_text(encoding="utf-8") for name in (_GENERATED, STRUCTURE))
        return hunks(before, now, STRUCTURE)

    def changes(self) -> list[Change]:
        return changes(*self._graphs())

    def variants(self, edited: Artifact) -> Iterator[bool]:
        graph, _ = self._graphs()
        made = edited.changes() if isinstance(edited, MarbleArtifact) else []
        if isinstance(edited, MarbleArtifact):
            self.keep(edited.facts.model_copy(update={"todos": self.facts.todos}))
        if (changed := carried(made, graph)) is not None:
            save_graph(self.folder, changed)
            yield True
        save_graph(self.folder, graph)
        yield False

    def prepare(self, say: Say) -> None:
        self._graphs()

    def run(self, golden: Path, mode: Mode, record: Path) -> Stopped | None:
        with Trace(golden) as trace:
            graph, _ = self._graphs()
            inputs = [trace.get(key).clone() for key in input_keys(trace.root or "", len(graph.inputs))]
        with Follower(golden, mode, record) as follower:

            def watch_operations(key: str, value: torch.Tensor) -> torch.Tensor:
                return follower.watch(key, value) if follower.golden.has(key) else value

            has_operations = any(operation_of(key) is not None for key in follower.golden)
            try:
                watching = watch_operations if has_operations else _as_it_is
                outputs = self.compute(inputs, follower.watch, watching)
            except Exception as error:  # An operation raises whatever torch raises for it.
                return Stopped(message=f"{type(error).__name__}: {error}")
            follower.returned(outputs, str(self.folder / STRUCTURE))
        return None

    def timed(self, golden: Path, threads: int, budget: float) -> Timing | None:
        with Trace(golden) as trace:
            graph, _ = self._graphs()
            inputs = [trace.get(key).clone() for key in input_keys(trace.root or "", len(graph.inputs))]
        found = self._for(inputs)
        return timed_here(lambda: self._compute(*found, inputs, _as_it_is, _as_it_is), budget)

    def compute(
        self, inputs: Sequence[torch.Tensor], watch: Watch, watch_operations: Watch
    ) -> list[torch.Tensor]:
        """The outputs of the graph as it is now."""
        return self._compute(*self._for(inputs), inputs, watch, watch_operations)

    def _compute(
        self,
        graph: NeuronGraph,
        arrays: Mapping[str, torch.Tensor],
        inputs: Sequence[torch.Tensor],
        watch: Watch,
        watch_operations: Watch,
    ) -> list[torch.Tensor]:
        facts = self.facts
        if facts.by == "messages":
            return by_messages(graph, arrays, inputs, watch=watch, watch_operations=watch_operations)
        opened = None if facts.opened else ()
        return by_groups(graph, arrays, inputs, watch=watch, watch_operations=watch_operations, opened=opened)

    def _for(self, inputs: Sequence[torch.Tensor]) -> tuple[NeuronGraph, Mapping[str, torch.Tensor]]:
        """The graph with its edits, for inputs of these sizes, and its arrays."""
        generated, edited = self._graphs()
        arrays = load_arrays(self.folder)
        graph = with_changes_opened(generated, edited)
        sizes = {size.name: inputs[size.input].shape[size.axis] for size in graph.free}
        if graph == generated or all(sizes[size.name] == size.example for size in graph.free):
            return graph, arrays
        fitting, arrays = resized(generated, arrays, sizes)
        return carried(changes(generated, edited), fitting) or fitting, arrays

    def _graphs(self) -> tuple[NeuronGraph, NeuronGraph]:
        """The graph as it was generated, and as it is now."""
        return load_graph(self.folder, file=_GENERATED), load_graph(self.folder)

    def write_repro(self, golden: Path, limits: Sequence[float]) -> Repro:
        return Repro(_CANDIDATE, needs="")


def _as_it_is(key: str, value: torch.Tensor) -> torch.Tensor:
    return value


_CANDIDATE = '''\
def candidate(inputs, here):
    """What the neuron graph in ./marble computes."""
    from torchport.targets.marble.target import compute

    return compute(here / "marble", inputs)

'''


def compute(folder: Path, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of the neuron graph in a folder."""
    return MarbleArtifact(folder).compute(inputs, _as_it_is, _as_it_is)
