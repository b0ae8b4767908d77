"""A layer that was rewritten, as a port of its own that PyTorch runs: the reference's slice is what was captured, and
the candidate's graph is what a user has made of it.

The candidate's operations have the names of those of the reference that they stand for. So they are compared one by
one, and a part of the reference's slice tells which part of the candidate's graph goes with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from torchport.capture import graph as g
from torchport.capture.manifest import read_manifest, write_manifest
from torchport.capture.plan import make_plan
from torchport.capture.recorder import Capture
from torchport.errors import ConvertError
from torchport.explain.alignment import Alignment, Runnable
from torchport.explain.case import Case, resized, shaped_as
from torchport.explain.faults import Fault
from torchport.explain.slice import input_name, upstream
from torchport.runs.folder import RunFile, RunFolder
from torchport.targets.base import Options
from torchport.targets.torch.target import GRAPH, TARGET, WEIGHTS
from torchport.trace.reading import Trace
from torchport.trace.writing import read_tensors, write_tensors

_OWN = "candidate_"
"""Stands before the name of an operation of the candidate that stands for none of the reference."""


def named_alike(alignment: Alignment, fault: Fault | None) -> g.Graph:
    """The candidate's graph, its operations called as those of the reference that they stand for."""
    reference, candidate = alignment.reference.graph.root, alignment.candidate.graph.root
    pairs = list(zip(reference.outputs, candidate.outputs, strict=True))
    if fault is not None:
        pairs.append((fault.result, fault.counterpart))
    pairs += alignment.counterparts.items()
    single = {node.name for node in (*reference.nodes, *candidate.nodes) if len(node.outputs) == 1}
    known, own = ({node.name for node in module.nodes} & single for module in (reference, candidate))
    names: dict[str, str] = {}
    for golden, other in pairs:
        is_free = other.name not in names and golden.name not in names.values()
        if golden.name in known and other.name in own and is_free and _are_alike(alignment, golden, other):
            names[other.name] = golden.name
    names = {node.name: names.get(node.name, f"{_OWN}{node.name}") for node in candidate.nodes}
    return replace(alignment.candidate.graph, modules={"": renamed(candidate, names)})


def _are_alike(alignment: Alignment, golden: g.Ref, other: g.Ref) -> bool:
    """Whether one value can be put in the place of the other."""
    ours, theirs = alignment.golden[golden], alignment.computed[other]
    return ours.shape == theirs.shape and ours.dtype == theirs.dtype


def renamed(module: g.Module, names: Mapping[str, str]) -> g.Module:
    """The module with other names for some of its inputs, weights and operations."""

    def rename(arg: g.Arg) -> g.Arg:
        return g.Ref(names.get(arg.name, arg.name), arg.index) if isinstance(arg, g.Ref) else arg

    def named(node: g.Node) -> g.Node:
        return replace(g.map_node(node, rename), name=names.get(node.name, node.name))

    return replace(
        module,
        inputs=tuple(replace(item, name=names.get(item.name, item.name)) for item in module.inputs),
        nodes=tuple(named(node) for node in module.nodes),
        outputs=tuple(rename(ref) for ref in module.outputs),
        params={names.get(node, node): weight for node, weight in module.params.items()},
    )


def write_rewritten(
    part: Capture,
    stored: Mapping[str, torch.Tensor],
    graph: g.Graph,
    weights: Mapping[str, torch.Tensor],
    folder: Path,
) -> None:
    """Writes the folder of a run: a slice of the reference, and the candidate's graph as what was made of it.

    `stored` are the candidate's values of the slice's weights, `weights` those that the candidate's graph reads.
    """
    files = RunFolder(folder, RunFile(name=part.name, target=TARGET.name, project=TARGET.project))
    part.save(files.captures)
    TARGET.convert(part.graph, {**part.weights, **_fitting(stored, part)}, files.project, Options())
    rewrite(files.project, graph, weights)
    files.write()


def _fitting(stored: Mapping[str, torch.Tensor], part: Capture) -> dict[str, torch.Tensor]:
    """Those weights that have the shapes of the recorded ones; the candidate has its own names for the others."""
    return {
        name: tensor
        for name, tensor in stored.items()
        if name in part.weights and tensor.shape == part.weights[name].shape
    }


def rewrite(project: Path, graph: g.Graph, weights: Mapping[str, torch.Tensor]) -> None:
    """Puts another graph in the place of the one that was generated, and its weights beside those that are there."""
    write_manifest(project / GRAPH, graph, extra={})
    there = read_tensors(project / WEIGHTS) if (project / WEIGHTS).is_file() else {}
    write_tensors(project / WEIGHTS, {**weights, **there}, {"format": "pt"})


@dataclass(frozen=True)
class Rewritten:
    """A layer of the reference and the candidate's graph of it, with operations that are named alike."""

    reference: Runnable
    graph: g.Graph
    weights: Mapping[str, torch.Tensor]

    @classmethod
    def open(cls, files: RunFolder) -> Rewritten:
        """From the folder that `write_rewritten` wrote."""
        whole, _ = read_manifest(files.manifest)
        recorded = read_tensors(files.captured("weights")) if whole.weights else {}
        plan = make_plan(whole)
        with Trace(files.captured("trace")) as trace:
            inputs = [trace.get(key).clone() for key in plan.calls[plan.root].inputs]
        graph, _ = read_manifest(files.project / GRAPH)
        stored = read_tensors(files.project / WEIGHTS) if graph.weights else {}
        return cls(Runnable(whole, recorded, inputs), graph, {name: stored[name] for name in graph.weights})

    def part(
        self, part: Capture, stored: Mapping[str, torch.Tensor]
    ) -> tuple[g.Graph, dict[str, torch.Tensor]]:
        """The part of the candidate's graph that computes what a part of the reference's slice computes.

        `stored` are the candidate's values of the part's weights. ConvertError if the candidate does not compute that
        from the same values, or not with these sizes.
        """
        case = self._cut(part.graph.root)
        for old, new in sorted(self._sizes(part.graph).items()):
            smaller = resized(case, old, new)
            if smaller is None:
                raise ConvertError("TP0401", f"the candidate does not run with {new} in the place of {old}")
            case = smaller
        fitting = {
            name: stored[name]
            for name, tensor in case.weights.items()
            if name in stored and stored[name].shape == tensor.shape
        }
        return replace(case.graph, output_names=part.graph.output_names), {**case.weights, **fitting}

    def _cut(self, wanted: g.Module) -> Case:
        """The operations that lead from the inputs of a part to its outputs, on the values that were recorded."""
        root, given = self.graph.root, {item.name for item in wanted.inputs}
        outputs = tuple(self._counterpart(ref) for ref in wanted.outputs)
        nodes = [node for node in root.nodes if node.name not in given]
        needed = upstream(nodes, [ref.name for ref in outputs])
        nodes = [node for node in nodes if node.name in needed]
        for ref, other in zip(wanted.outputs, outputs, strict=True):
            self._must_be_of_the_same_values(
                _sources(wanted, ref), _sources(replace(root, nodes=tuple(nodes)), other)
            )
        read = {ref.name for node in nodes for ref in g.refs([node.args, node.kwargs])}
        read |= {ref.name for ref in outputs}
        params = {node: weight for node, weight in root.params.items() if node in read}
        inputs = {item.name: self._values[item.name] for item in wanted.inputs}
        small = replace(
            root,
            inputs=tuple(
                replace(item, meta=shaped_as(inputs[item.name], item.meta)) for item in wanted.inputs
            ),
            nodes=tuple(nodes),
            outputs=outputs,
            params=params,
        )
        weights = {name: self.weights[name] for name in params.values()}
        known = {name: self.graph.weights[name] for name in weights}
        return Case(replace(self.graph, modules={"": small}, weights=known), inputs, weights, weights)

    def _must_be_of_the_same_values(self, ours: _Sources, theirs: _Sources) -> None:
        """What the reference works with and the candidate does not, the candidate must not work out itself.

        Or else the two would differ as soon as the values are made smaller or rounder, however right the candidate is.
        """
        known = set(theirs.values) | {f"weight {name}" for name in theirs.weights}
        left_out = set(ours.values) - set(theirs.values)
        if not set(theirs.values) <= set(ours.values) or any(
            self._leads_to(name) & known for name in left_out
        ):
            raise ConvertError("TP0401", "the candidate computes this from other values than the reference")

    def _leads_to(self, name: str) -> set[str]:
        """The values and weights of the reference that a value of it depends on."""
        root = self.reference.graph.root
        before = upstream(root.nodes, [self._refs[name].name])
        nodes = [node for node in root.nodes if node.name in before]
        read = {ref.name for node in nodes for ref in g.refs([node.args, node.kwargs])}
        return {f"weight {root.params[one]}" if one in root.params else one for one in read}

    def _counterpart(self, ref: g.Ref) -> g.Ref:
        """The candidate's value of the same name or, for an output of the whole, at the same place."""
        whole = self.reference.graph.root.outputs
        is_named = any(node.name == ref.name for node in self.graph.root.nodes)
        return self.graph.root.outputs[whole.index(ref)] if ref in whole and not is_named else ref

    @cached_property
    def _values(self) -> dict[str, torch.Tensor]:
        """The values of the reference by the names that inputs of a part of it have."""
        return {input_name(ref): value for ref, value in self.reference.values().items()}

    @cached_property
    def _refs(self) -> dict[str, g.Ref]:
        """By the same names, which values of the reference they are."""
        return {input_name(ref): ref for ref in self.reference.values()}

    def _sizes(self, part: g.Graph) -> dict[int, int]:
        """The sizes of axes that are others in a part than they were in the whole."""
        shapes = [(self._values[item.name].shape, item.meta.shape) for item in part.root.inputs]
        known = self.reference.weights
        shapes += [(known[name].shape, weight.meta.shape) for name, weight in part.weights.items()]
        found: dict[int, int] = {}
        for old, new in ((o, n) for before, now in shapes for o, n in zip(before, now, strict=True)):
            if not isinstance(new, int) or found.setdefault(old, new) != new:
                raise ConvertError("TP0401", f"axes of size {old} have become of several sizes")
        return {old: new for old, new in found.items() if old != new}


@dataclass(frozen=True)
class _Sources:
    """What a value is computed from: inputs of the graph, and weights."""

    values: frozenset[str]
    weights: frozenset[str]


def _sources(module: g.Module, ref: g.Ref) -> _Sources:
    names = upstream(module.nodes, [ref.name])
    nodes = [node for node in module.nodes if node.name in names]
    read = {one.name for node in nodes for one in g.refs([node.args, node.kwargs])} | {ref.name}
    own = {node.name for node in nodes}
    weights = frozenset(module.params[one] for one in read if one in module.params)
    return _Sources(frozenset(one for one in read - own if one not in module.params), weights)
