"""One graph on its way through `torchport_inductor`: from Dynamo's graph to the kernels of forward and backward."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from torchport.debug import graph_files
from torchport.debug.backends.verdict import judge
from torchport.debug.constraints.base import CheckedGraph, Stage, Violation
from torchport.debug.internals.inductor import compile_to_kernels, compile_with_traces
from torchport.debug.repro import InputsOf, NoScript, Repro, repro
from torchport.debug.session import Session
from torchport.debug.tree import ArtifactTree

_ROOM = 64 * 2**20
"""The free bytes that a disk must have for Inductor to write its traces there: it dies if one cannot be written."""


@dataclass(frozen=True)
class Settings:
    strict: bool = True
    repro_inputs: InputsOf = "random"


@dataclass
class Compilation:
    """What is known of one graph of Dynamo's. Its backward may be compiled later, and by another thread."""

    session: Session
    settings: Settings
    name: str = ""
    script: Repro | None = None
    """The script that runs the graph by itself, made before Inductor changes the graph."""
    checked: dict[Stage, tuple[CheckedGraph, list[Violation]]] = field(default_factory=dict)

    def begin(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
        """Keeps and checks the graph that Dynamo made."""
        self.name = self.session.next_name()
        if self.session.tree is not None or self.session.constraints:
            self._write_script(module, inputs)
        self._check("dynamo", module)

    def compile_graph(
        self, module: torch.fx.GraphModule, inputs: Sequence[Any], *args: Any, **settings: Any
    ) -> Any:
        """What Inductor calls with the forward and the backward graph: keeps and checks it, then compiles it."""
        graph = self._check("backward" if settings.get("is_backward") else "forward", module)
        tree = self.session.tree
        if tree is None:
            return compile_to_kernels(module, inputs, *args, **settings)
        try:
            with _traces_for(tree, graph, original_operations(module)) as folder:
                if folder is None:
                    return compile_to_kernels(module, inputs, *args, **settings)
                return compile_with_traces(folder, module, inputs, *args, **settings)
        except Exception as error:
            graph_files.write_failure(tree, graph, error)
            error.add_note(f"What was gathered until then is in {tree.path}")
            raise

    def _check(self, stage: Stage, module: torch.fx.GraphModule) -> CheckedGraph:
        """Keeps a graph and holds it against the constraints; if strict, a violation is raised.

        AOTAutograd tries a backward graph with free sizes early, drops what that raises, and comes back with the same
        graph once it is needed. It is kept once, and refused each time.
        """
        if stage not in self.checked:
            self.checked[stage] = self.session.add(self.name, stage, module)
            if self.session.tree is not None:
                graph_files.write_graph(
                    self.session.tree, self.checked[stage][0], module, self.checked[stage][1]
                )
        graph, violations = self.checked[stage]
        judge(violations, self.settings.strict, self.session, self.name, self.script)
        return graph

    def _write_script(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
        tree = self.session.tree
        try:
            self.script = repro(
                module,
                inputs,
                title=f"{self.name}, as torch.compile handed it to its backend.",
                inputs_of=self.settings.repro_inputs,
                inputs_file=graph_files.inputs_file(self.name),
            )
        except NoScript as reason:
            if tree is not None:
                tree.add_problem(f"there is no script for {self.name}: {reason}")
            return
        if tree is not None:
            graph_files.write_repro(tree, self.name, self.script)


def original_operations(module: torch.fx.GraphModule) -> frozenset[str]:
    """The names of the ATen operations that a graph came from, before they were broken down."""
    targets = [one for node in module.graph.nodes for one in (node.meta.get("original_aten"), node.target)]
    packets = [getattr(target, "_overloadpacket", None) for target in targets]
    return frozenset(packet.__name__ for packet in packets if packet is not None)


@contextmanager
def _traces_for(tree: ArtifactTree, graph: CheckedGraph, known: frozenset[str]) -> Iterator[Path | None]:
    """A folder for traces, or None; what is in it at the end, also of a compilation that failed, goes into the tree."""
    folder = _folder_for_traces(tree)
    try:
        yield folder
    finally:
        if folder is not None:
            graph_files.keep_traces(tree, graph, folder, known)
            shutil.rmtree(folder, ignore_errors=True)


def _folder_for_traces(tree: ArtifactTree) -> Path | None:
    """A new folder with enough room, not in the tree: if that cannot be written, there still is a compilation."""
    try:
        free = shutil.disk_usage(tempfile.gettempdir()).free
        if free >= _ROOM:
            return Path(tempfile.mkdtemp(prefix="torchport-traces-"))
        reason = f"{tempfile.gettempdir()} has only {free:,} bytes free"
    except OSError as error:
        reason = str(error)
    tree.add_problem(f"IR and kernels are not kept: {reason}")
    return None
