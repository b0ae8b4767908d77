"""What an adapter of an accelerator is: what the hardware can run, and a way to run a graph, or one operation.

class Tiny(AcceleratorAdapter):
    capabilities = AcceleratorCapabilities("tiny", dtypes={"float32"}, alignment=4)

    def run_node(self, op, args, kwargs):
        return my_kernels[op](*args, **kwargs)

An adapter is a backend: `torch.compile(model, backend=Tiny())`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self

import torch

from torchport.debug.adapters.capabilities import AcceleratorCapabilities
from torchport.debug.adapters.graphs import NodeByNode, with_results_checked
from torchport.debug.constraints.base import Stage, Violation
from torchport.debug.internals import adapting
from torchport.debug.session import Session
from torchport.errors import CompileError, UsageError

_LOG = logging.getLogger("torchport.debug")
_MOST_SHOWN = 5
_sessions = threading.Lock()


class AcceleratorAdapter:
    """A subclass has `capabilities` and either `compile`, for whole graphs, or `run_node`, for single operations."""

    capabilities: AcceleratorCapabilities
    strict: bool = False
    """Whether a graph that the accelerator cannot run is an error; otherwise it is logged, and the graph runs."""
    runs_kernels: bool = True
    """Whether anything but eager PyTorch computes; if not, equal numbers prove nothing."""
    _session: Session | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if cls.compile is AcceleratorAdapter.compile and cls.run_node is AcceleratorAdapter.run_node:
            raise UsageError("TP1051", f"{cls.__name__} has neither compile nor run_node")
        return super().__new__(cls)

    @property
    def name(self) -> str:
        return self.capabilities.name

    @property
    def session(self) -> Session:
        """The graphs that were compiled so far, and what in them breaks a constraint."""
        with _sessions:
            if self._session is None:
                self._session = Session(self.capabilities.constraints())
            return self._session

    def compile(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """A function that takes what the graph takes and gives a sequence of what it gives.

        The graph has ATen operations only; the example inputs are fake tensors, or symbolic sizes.
        """
        return NodeByNode(gm, self.run_node)

    def run_node(self, op: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """What one ATen operation gives."""
        return op(*args, **kwargs)

    def __call__(
        self,
        gm: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        """A graph of Dynamo's, checked and compiled: what torch.compile asks of a backend."""
        strict = self._is_strict(options or {})
        name = self.session.next_name()
        self._check(name, "dynamo", strict, gm)
        return adapting.through_autograd(
            gm,
            example_inputs,
            forward=partial(self._compile_checked, name, "forward", strict),
            backward=partial(self._compile_checked, name, "backward", strict),
        )

    def register(self) -> str:
        """The name by which torch.compile knows this adapter from now on, in this process."""
        name = f"torchport_{self.name}"
        if not adapting.register(name, self):
            raise UsageError("TP1052", f"torch.compile has another backend called {name}")
        return name

    def _is_strict(self, options: Mapping[str, Any]) -> bool:
        if unknown := sorted(options.keys() - {"strict"}):
            raise UsageError(
                "TP1051",
                f"the adapter {self.name} has no option {', '.join(unknown)}",
                fix="its option is strict",
            )
        return bool(options.get("strict", self.strict))

    def _compile_checked(
        self,
        name: str,
        stage: Literal["forward", "backward"],
        strict: bool,
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any],
    ) -> Callable[..., Any]:
        self._check(name, stage, strict, gm)
        return with_results_checked(gm, self.compile(gm, inputs), self.name)

    def _check(self, name: str, stage: Stage, strict: bool, gm: torch.fx.GraphModule) -> None:
        """Holds a graph against all constraints, and so the graphs in it that control flow runs."""
        graphs = ((path, one) for path, one in gm.named_modules() if isinstance(one, torch.fx.GraphModule))
        found = [
            violation
            for path, one in graphs
            for violation in self.session.add(f"{name}.{path}" if path else name, stage, one)[1]
        ]
        for violation in found:
            _LOG.warning("%s, %s of %s: %s", self.name, stage, violation.graph, violation)
        if found and strict:
            raise _refused(self.name, found)


def _refused(name: str, found: Sequence[Violation]) -> CompileError:
    more = f", and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    shown = "; ".join(str(violation) for violation in found[:_MOST_SHOWN])
    return CompileError(
        "TP1053", f"{name} cannot run the graph: {shown}{more}", where=found[0].source, fix=found[0].fix
    )
