"""One graph on its way through `torchport_inductor`: from Dynamo's graph to the kernels of forward and backward."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from torchport.debug import graph_files
from torchport.debug.backends.holding import Holder
from torchport.debug.constraints.base import CheckedGraph, Stage
from torchport.debug.graph_text import NoScript
from torchport.debug.internals.inductor import (
    compile_like_inductor,
    compile_to_kernels,
    compile_with_traces,
    watch_calls,
)
from torchport.debug.repro import InputsOf, repro
from torchport.debug.tree import ArtifactTree

_ROOM = 64 * 2**20
"""The free bytes that a disk must have for Inductor to write its traces there: it dies if one cannot be written."""


@dataclass
class Compilation:
    """One graph of Dynamo's. Its backward may be compiled later, and by another thread."""

    holder: Holder
    repro_inputs: InputsOf
    name: str = ""

    def compile(
        self, module: torch.fx.GraphModule, inputs: Sequence[Any], settings: Mapping[str, Any]
    ) -> Callable[..., Any]:
        """Keeps and checks the graph that Dynamo made, and compiles it with these settings of Inductor's."""
        self.name = self.holder.session.next_name()
        self._write_script(module, inputs)
        self.holder.hold(self.name, "dynamo", module)
        calls = self.holder.calls(self.name, "dynamo", module)
        try:
            return calls.run(compile_like_inductor(module, inputs, self._compile_graph, settings))
        except Exception as error:
            self.holder.given_up(self.name, error)
            raise

    def _compile_graph(
        self, module: torch.fx.GraphModule, inputs: Sequence[Any], *args: Any, **settings: Any
    ) -> Any:
        """What Inductor calls with the forward and the backward graph: keeps and checks it, then compiles it.

        AOTAutograd tries a backward graph with free sizes early, drops what that raises, and comes back with the same
        graph once it is needed. It is kept once, and refused each time.
        """
        stage: Stage = "backward" if settings.get("is_backward") else "forward"
        graph = self.holder.hold(self.name, stage, module)
        calls = self.holder.calls(self.name, stage, module)
        compiled = self._kernels(graph, module, inputs, *args, **settings)
        watch_calls(compiled, calls.call)
        return compiled

    def _kernels(
        self,
        graph: CheckedGraph,
        module: torch.fx.GraphModule,
        inputs: Sequence[Any],
        *args: Any,
        **settings: Any,
    ) -> Any:
        tree = self.holder.session.tree
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

    def _write_script(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
        """Writes the script that runs the graph by itself, before Inductor changes the graph."""
        tree = self.holder.session.tree
        if tree is None:
            return
        try:
            script = repro(
                module,
                inputs,
                title=f"{self.name}, as torch.compile handed it to its backend.",
                inputs_of=self.repro_inputs,
                inputs_file=graph_files.inputs_file(self.name),
            )
        except NoScript as reason:
            tree.add_problem(f"there is no script for {self.name}: {reason.message}")
        else:
            graph_files.write_repro(tree, self.name, script)


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
