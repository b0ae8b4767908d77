"""What an adapter of an accelerator is: what the hardware can run, and a way to run a graph, or one operation.

class Tiny(AcceleratorAdapter):
    capabilities = AcceleratorCapabilities("tiny", dtypes={"float32"}, alignment=4)

    def run_node(self, op, args, kwargs):
        return my_kernels[op](*args, **kwargs)

An adapter is a backend: `torch.compile(model, backend=Tiny())`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self

import torch

from torchport.debug.adapters.capabilities import AcceleratorCapabilities
from torchport.debug.adapters.graphs import NodeByNode, with_results_checked
from torchport.debug.backends.holding import Holder, LogOnce
from torchport.debug.internals import adapting
from torchport.debug.internals.aot_eager import compile_ahead
from torchport.debug.internals.stopping import stop_compiling
from torchport.debug.session import Session
from torchport.errors import TorchportError, UsageError

_first_use = threading.Lock()


class AcceleratorAdapter:
    """A subclass has `capabilities` and either `compile`, for whole graphs, or `run_node`, for single operations."""

    capabilities: AcceleratorCapabilities
    strict: bool = False
    """Whether a graph that the accelerator cannot run is an error; otherwise it is logged, and the graph runs."""
    runs_kernels: bool = True
    """Whether anything but eager PyTorch computes; if not, equal numbers prove nothing."""
    _gathered: tuple[Session, LogOnce] | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if cls.compile is AcceleratorAdapter.compile and cls.run_node is AcceleratorAdapter.run_node:
            raise UsageError("TP1051", f"{cls.__name__} has neither compile nor run_node")
        return super().__new__(cls)

    @property
    def name(self) -> str:
        return self.capabilities.name

    @property
    def __name__(self) -> str:
        """What torch.compile calls it in its errors."""
        return self.name

    @property
    def session(self) -> Session:
        """The graphs that were compiled so far, and what in them breaks a constraint."""
        return self._gathering()[0]

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
        try:
            return self._compile_ahead(gm, example_inputs, self._is_strict(options or {}))
        except TorchportError as error:
            return stop_compiling(error)

    def register(self) -> str:
        """The name by which torch.compile knows this adapter from now on, in this process."""
        name = f"torchport_{self.name}"
        if not adapting.register(name, self):
            raise UsageError("TP1052", f"torch.compile has another backend called {name}")
        return name

    def _gathering(self) -> tuple[Session, LogOnce]:
        """Made on first use: a subclass need not call this class's constructor."""
        with _first_use:
            if self._gathered is None:
                self._gathered = Session(self.capabilities.constraints()), LogOnce()
            return self._gathered

    def _is_strict(self, options: Mapping[str, Any]) -> bool:
        if unknown := sorted(options.keys() - {"strict"}):
            raise UsageError(
                "TP1051",
                f"the adapter {self.name} has no option {', '.join(unknown)}",
                fix="its option is strict",
            )
        return bool(options.get("strict", self.strict))

    def _compile_ahead(
        self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any], strict: bool
    ) -> Callable[..., Any]:
        session, log = self._gathering()
        holder = Holder(session, session.constraints, strict, log)
        name = session.next_name()
        holder.hold(name, "dynamo", gm)
        calls = holder.calls(name, "dynamo", gm)
        try:
            compiled = compile_ahead(
                gm,
                example_inputs,
                forward=partial(self._compile_checked, holder, name, "forward"),
                backward=partial(self._compile_checked, holder, name, "backward"),
            )
        except Exception as error:
            holder.given_up(name, error)
            raise
        return calls.run(compiled)

    def _compile_checked(
        self,
        holder: Holder,
        name: str,
        stage: Literal["forward", "backward"],
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any],
    ) -> Callable[..., Any]:
        """A graph as a function. It is held against the constraints before it is compiled, and with each new set of
        values of its free sizes; a backward graph when it first runs, since it may never do so."""
        is_checked = stage == "forward"
        if is_checked:
            holder.hold(name, stage, gm)
        calls = holder.calls(name, stage, gm, checked=is_checked)
        return calls.run(with_results_checked(gm, self.compile(gm, inputs), self.name))
