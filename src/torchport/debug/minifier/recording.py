"""What eager PyTorch computes at every node of a graph, so that any part of it can be run alone on real values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torchport.capture.torch_internals import pytree
from torchport.debug.minifier.case import GraphCase, copied
from torchport.errors import CompileError


@dataclass
class Recording:
    case: GraphCase
    values: dict[str, Any] = field(default_factory=dict)
    """What each node gives, by its name. A tensor that is written to later is kept as it was."""
    read: dict[tuple[str, str], Any] = field(default_factory=dict)
    """(reader, node) → the value that the reader found, if it had been written to since the node gave it."""

    def read_by(self, reader: torch.fx.Node, node: torch.fx.Node) -> Any:
        return self.read.get((reader.name, node.name), self.values[node.name])


def record(case: GraphCase) -> Recording:
    """Runs the graph eagerly. CompileError if eager PyTorch cannot."""
    recording = Recording(case)
    runner = _Recorder(case.fresh_module(), recording, case.writes)
    before = torch.is_grad_enabled()
    try:
        torch.manual_seed(0)
        runner.run(*case.fresh_inputs())
    except Exception as error:
        raise CompileError(
            "TP1042",
            f"eager PyTorch cannot run the graph: {type(error).__name__}: {str(error).splitlines()[0]}",
            where=runner.current,
        ) from error
    finally:
        torch.set_grad_enabled(before)
    return recording


class _Recorder(torch.fx.Interpreter):
    def __init__(self, module: torch.fx.GraphModule, recording: Recording, has_writes: bool) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.recording = recording
        self.has_writes = has_writes
        self.versions: dict[str, Any] = {}
        self.current = ""

    def run_node(self, n: torch.fx.Node) -> Any:
        self.current = n.name
        if self.has_writes:
            self._keep_what_was_written(n)
        value = super().run_node(n)
        if n.op != "output":
            self.recording.values[n.name] = self._kept(value)
            self.versions[n.name] = _versions(value)
        return value

    def _keep_what_was_written(self, reader: torch.fx.Node) -> None:
        for source in reader.all_input_nodes:
            value = self.env[source]
            if _versions(value) != self.versions[source.name]:
                self.recording.read[reader.name, source.name] = self._kept(value)

    def _kept(self, value: Any) -> Any:
        """A value without its history, of which it is only remembered whether gradients flow through it."""

        def kept(tensor: Tensor) -> Tensor:
            own = copied(tensor) if self.has_writes else tensor.detach()
            return own.requires_grad_(tensor.requires_grad)

        return pytree.tree_map_only(Tensor, kept, value)


def _versions(value: Any) -> Sequence[int]:
    return [
        leaf._version
        for leaf in pytree.tree_leaves(value)
        if isinstance(leaf, Tensor) and not leaf.is_inference()
    ]
