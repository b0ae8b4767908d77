"""Planting: for each kind of fault and model one place that it can be in, by each way that it can get there.

Ways: `graph` is a mistake of the converter, `weights` a wrong file, `source` an edit of the generated Rust, `neurons`
one of a group of neurons. The place is picked at random, always the same for the same kind and model, among those
where the fault has an effect.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from torchport.capture.graph import Graph
from torchport.capture.recorder import Capture, record
from torchport.errors import TorchportError
from torchport.porting.conversion import converted
from torchport.porting.port import Port
from torchport.targets.base import Artifact, Options, Target
from torchport.targets.marble.convert import Converted, convert
from torchport.targets.marble.evaluate import by_groups
from torchport.targets.marble.groups import Group
from torchport.targets.marble.stored import load_graph, save_graph
from torchport.targets.registry import DEFAULT, find_target, options_for
from torchport.trace.writing import read_tensors, write_tensors

from . import in_operations, in_places
from .effect import Effect, effect_of, effect_while, first_call
from .in_layers import GRAPH
from .in_neurons import NEURONS, with_group
from .in_source import SOURCE, Edit, untie
from .in_weights import WEIGHTS, Stored
from .models import MODELS
from .rewrite import Rewrite, Site, plant, sites

assert in_operations and in_places  # importing them fills the table of faults


@dataclass(frozen=True)
class Faulty:
    """A target whose converter has a fault, wherever the place of the fault is converted."""

    real: Target
    rewrite: Callable[[Graph], Graph]

    def convert(
        self, graph: Graph, weights: Mapping[str, torch.Tensor] | None, folder: Path, options: Options
    ) -> Artifact:
        return self.real.convert(self.rewrite(graph), weights, folder, options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


@dataclass(frozen=True)
class Planted:
    """A fault in its place. `culprit` is the layer that must be blamed, known from the graph alone."""

    kind: str
    model: str
    way: str
    fault: str
    place: str
    culprit: str
    effect: Effect
    rewrite: Callable[[Graph], Graph] = lambda graph: graph
    edit: Callable[[Path], None] = lambda project: None
    """Changes the project after it was written."""

    def __post_init__(self) -> None:
        """The place of the fault and what torch computes with it must agree on who is to blame."""
        if self.effect.owner not in (None, self.culprit):
            raise AssertionError(f"{self.kind} at {self.place} shows first at {self.effect.owner}")


@dataclass
class Subject:
    """A model, captured once, into whose port faults are planted one after the other."""

    name: str
    folder: Path
    to: str = DEFAULT
    """The name of the target."""
    capture: Capture = field(init=False)
    target: Target = field(init=False)
    quiet_places: int = 0
    """How many places were passed over because the fault had no effect there that is larger than noise."""

    def __post_init__(self) -> None:
        self.target = find_target(self.to)
        model, args, *kwargs = MODELS[self.name]()
        given = kwargs[0] if kwargs else None
        self.capture = record(
            model, args, given, name=self.name, decompose=lambda op: not self.target.supports(op)
        )
        self.files = self.capture.save(self.folder / "capture")
        stored = read_tensors(self.files["weights"]) if "weights" in self.files else {}
        self.stored = {name: tensor for name, tensor in stored.items() if name in self.capture.graph.weights}

    def port(self, planted: Planted | None = None) -> Port:
        """The port with a fault in it, or as it should be."""
        target: Any = self.target if planted is None else Faulty(self.target, planted.rewrite)
        made = converted(self.capture, target, self.folder, options_for(self.target, {}))
        if planted is not None:
            planted.edit(made.artifact.folder)
        return Port(made.files, made.target, made.artifact)

    def false_alarm(self) -> str | None:
        """What is said against the port without a fault, if it does not pass."""
        try:
            report = self.port().check(explain=False)
        except TorchportError as error:
            return str(error)
        if report.passed:
            return None
        found = report.first_divergence
        return f"{found.layer}: {found.reason}" if found else report.status

    def all_faults(self, kinds: Iterable[str]) -> Iterator[Planted]:
        for kind in kinds:
            yield from self.faults(kind)

    def faults(self, kind: str) -> Iterator[Planted]:
        """One fault of the kind for each way in which the model can have it."""
        for way, found in (
            ("graph", self._in_graph(kind)),
            ("weights", self._in_weights(kind)),
            ("source", self._in_source(kind)),
            ("neurons", self._in_neurons(kind)),
        ):
            chance = random.Random(f"{kind} {self.name} {way}")
            places = list(found)
            chance.shuffle(places)
            for make in places:
                planted = make()
                if planted.effect.is_real:
                    yield planted
                    break
                self.quiet_places += 1

    def _in_graph(self, kind: str) -> Iterator[Callable[[], Planted]]:
        graph = self.capture.graph
        for rewrite in GRAPH.get(kind, ()):
            for site in sites(graph, rewrite):
                yield partial(self._rewritten, kind, rewrite, site)

    def _rewritten(self, kind: str, rewrite: Rewrite, site: Site) -> Planted:
        graph = plant(self.capture.graph, rewrite, site)
        return self._planted(
            kind,
            "graph",
            rewrite.__name__,
            site,
            effect=effect_of(self.capture, graph, self.capture.weights),
            rewrite=lambda graph: plant(graph, rewrite, site),
        )

    def _in_weights(self, kind: str) -> Iterator[Callable[[], Planted]]:
        for change in WEIGHTS.get(kind, ()):
            for name in self.stored:
                changed = change(Stored(self.capture.graph, self.stored, name))
                if changed is not None:
                    yield partial(self._reweighted, kind, change.__name__, name, changed)

    def _reweighted(self, kind: str, fault: str, name: str, changed: dict[str, torch.Tensor]) -> Planted:
        graph = self.capture.graph
        heads = {own: weight.tied_to or own for own, weight in graph.weights.items()}
        weights = {own: changed.get(head, self.capture.weights[own]) for own, head in heads.items()}
        readers = {
            key
            for key, module in graph.modules.items()
            if changed.keys() & {heads[weight] for weight in module.params.values()}
        }
        return Planted(
            kind,
            self.name,
            "weights",
            fault,
            name,
            first_call(self.capture.plan, readers),
            effect_of(self.capture, graph, weights),
            edit=lambda project: store(project, changed),
        )

    def _in_source(self, kind: str) -> Iterator[Callable[[], Planted]]:
        """Edits of source come with the same fault in the graph, which says where it is and what it does."""
        if self.to != DEFAULT:
            return
        for edit in SOURCE.get(kind, ()):
            if edit.model == self.name:
                yield partial(self._edited, kind, edit)
        if kind == "tied weight untied":
            for name, weight in self.capture.graph.weights.items():
                if weight.tied_to is not None:
                    yield partial(self._untied, kind, name)

    def _edited(self, kind: str, edit: Edit) -> Planted:
        for rewrite in GRAPH[kind]:
            for site in sites(self.capture.graph, rewrite):
                if site.module == edit.module and (edit.node is None or site.node == edit.node):
                    graph = plant(self.capture.graph, rewrite, site)
                    effect = effect_of(self.capture, graph, self.capture.weights)
                    return self._planted(kind, "source", edit.struct, site, effect=effect, edit=edit.make)
        raise LookupError(f"{kind} is in no operation of {edit.module} of {self.name}")

    def _untied(self, kind: str, name: str) -> Planted:
        """The weight is read from a place of its own, where there is what training began with."""
        weight = self.capture.weights[name]
        other = torch.randn(weight.shape, generator=torch.Generator().manual_seed(99)) * weight.std()

        def edit(project: Path) -> None:
            untie(project, name)
            store(project, {name: other})

        graph = self.capture.graph
        effect = effect_of(self.capture, graph, {**self.capture.weights, name: other})
        readers = {key for key, module in graph.modules.items() if name in module.params.values()}
        culprit = first_call(self.capture.plan, readers)
        return Planted(kind, self.name, "source", "untie", name, culprit, effect, edit=edit)

    def _in_neurons(self, kind: str) -> Iterator[Callable[[], Planted]]:
        if self.to != "marble":
            return
        for change in NEURONS.get(kind, ()):
            for group in self.neurons.graph.groups():
                changed = change(group)
                if changed is not None:
                    yield partial(self._rewired, kind, change.__name__, changed)

    def _rewired(self, kind: str, fault: str, changed: Group) -> Planted:
        arrays = {**self.capture.weights, **self.neurons.made}
        graph = with_group(self.neurons.graph, changed)
        effect = effect_while(
            self.capture,
            self.capture.plan,
            lambda watch, inputs: by_groups(graph, arrays, inputs, watch=watch),
        )
        return Planted(
            kind,
            self.name,
            "neurons",
            fault,
            changed.name,
            changed.layer,
            effect,
            edit=lambda project: save_graph(project, with_group(load_graph(project), changed, keep=True)),
        )

    @cached_property
    def neurons(self) -> Converted:
        """The model as a graph of neurons."""
        shapes = {
            item.name: tuple(self.capture.golden[key].shape)
            for item, key in zip(
                self.capture.graph.root.inputs,
                self.capture.plan.calls[self.capture.plan.root].inputs,
                strict=True,
            )
        }
        return convert(self.capture.graph, shapes)

    def _planted(self, kind: str, way: str, fault: str, site: Site, **rest: Any) -> Planted:
        culprit = first_call(self.capture.plan, {site.module})
        place = f"{site.module}/{site.node}".strip("/")
        return Planted(kind, self.name, way, fault, place, culprit, **rest)


def store(project: Path, changed: dict[str, torch.Tensor]) -> None:
    """Puts other tensors into the file that a port loads."""
    path = project / "model.safetensors"
    tensors = read_tensors(path)
    write_tensors(path, {**tensors, **changed}, {"format": "pt"})
