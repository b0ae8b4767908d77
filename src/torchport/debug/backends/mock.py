"""Backends for torch.compile that hold every graph against constraints, and then run it as it is.

`mock_backend` checks the graph that Dynamo made and the ATen graph of its forward pass, then runs Dynamo's.
`aot_mock_backend` also checks the backward graph, and runs what AOTAutograd made. `torchport_mock` is the same, under
the name that torch.compile finds without an import of torchport. Each can be used as it is, or called with options:

    torch.compile(model, backend=aot_mock_backend(strict=False, constraints=[ShapeConstraint(alignment=8)]))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from torchport.debug.backends.holding import Holder, LogOnce
from torchport.debug.constraints import Constraint, MemoryConstraint, ShapeConstraint
from torchport.debug.internals.aot_eager import compile_ahead
from torchport.debug.internals.stopping import stop_compiling
from torchport.debug.session import Session
from torchport.debug.settings import mock_settings
from torchport.debug.tree import ArtifactTree
from torchport.errors import TorchportError, UsageError

Run = Callable[..., Any]


@dataclass(frozen=True)
class MockOptions:
    strict: bool | int | str | None = None
    """Whether a violated constraint stops the compilation; None asks MOCK_STRICT."""
    alignment: int | str | None = None
    """What the last axis of every tensor must be a multiple of; None asks MOCK_ALIGNMENT."""
    max_memory: int | str | None = None
    """The most that one tensor may take; None asks MOCK_MAX_MEMORY."""
    constraints: Sequence[Constraint] = ()
    """What else graphs are held against; a ShapeConstraint or MemoryConstraint takes the place of the environment's."""
    session: Session | None = None
    """What gathers graphs and violations; one of the backend's own by default."""
    artifacts: str | Path | None = None
    """The folder for graphs and repro scripts; none are written by default."""

    def with_values(self, given: Mapping[str, Any]) -> MockOptions:
        known = [one.name for one in fields(self)]
        for name in given:
            if name not in known:
                message = f"the mock backend has no option {name!r}; it has {', '.join(known)}"
                raise UsageError("TP1003", message)
        made = replace(self, **given)
        for one in made.constraints:
            if not isinstance(one, Constraint):
                raise UsageError(
                    "TP1008", f"{one!r} is no Constraint: give objects such as DtypeConstraint(…)"
                )
        mock_settings(made.strict, made.alignment, made.max_memory, environment={})
        return made


class MockBackend:
    runs_kernels = False
    """Eager PyTorch computes everything, so that equal numbers prove nothing."""

    def __init__(self, name: str, *, ahead: bool, options: MockOptions | None = None) -> None:
        self.__name__ = name
        self.ahead = ahead
        """Whether AOTAutograd takes part: the backward graph is checked too, and the ATen graphs are what runs."""
        self.options = options or MockOptions()
        self.session = self.options.session or Session()
        self._log = LogOnce()

    def __repr__(self) -> str:
        return self.__name__

    def __call__(
        self,
        module: torch.fx.GraphModule | None = None,
        inputs: Sequence[Any] | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> Any:
        """With a graph and its inputs, which is how torch.compile calls: what runs the graph. Otherwise a backend of
        this kind with the options given, and a session of its own."""
        values = {**(options or {}), **given}
        if module is None or inputs is None:
            return MockBackend(self.__name__, ahead=self.ahead, options=self.options.with_values(values))
        try:
            return self._compile(module, inputs, self._holder(self.options.with_values(values)))
        except TorchportError as error:
            return stop_compiling(error)

    def _holder(self, options: MockOptions) -> Holder:
        session = options.session or self.session
        if options.artifacts is not None and session.tree is None:
            session.tree = ArtifactTree(Path(options.artifacts), self.__name__)
        settings = mock_settings(options.strict, options.alignment, options.max_memory)
        rules = [*session.constraints, *options.constraints]
        if options.alignment is not None or not any(isinstance(one, ShapeConstraint) for one in rules):
            rules.append(ShapeConstraint(alignment=settings.alignment))
        if options.max_memory is not None or not any(isinstance(one, MemoryConstraint) for one in rules):
            rules.append(MemoryConstraint(max_bytes=settings.max_memory))
        return Holder(session, rules, settings.strict, self._log)

    def _compile(self, module: torch.fx.GraphModule, inputs: Sequence[Any], holder: Holder) -> Run:
        name = holder.session.next_name()
        holder.hold(name, "dynamo", module)
        try:
            return self._compile_ahead(module, inputs, holder, name)
        except Exception as error:
            holder.aot_failed(name, error)
            return holder.run(name, "dynamo", module)

    def _compile_ahead(
        self, module: torch.fx.GraphModule, inputs: Sequence[Any], holder: Holder, name: str
    ) -> Run:
        def forward(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Run:
            holder.hold(name, "forward", graph)
            return holder.run(name, "forward", graph)

        def backward(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Run:
            return holder.run(name, "backward", graph, checked=False)

        if self.ahead:
            calls = holder.calls(name, "dynamo", module)
            return calls.run(compile_ahead(module, inputs, forward=forward, backward=backward))
        with torch.no_grad():
            compile_ahead(module, inputs, forward=forward, backward=backward)
        return holder.run(name, "dynamo", module)


mock_backend = MockBackend("mock_backend", ahead=False)
aot_mock_backend = MockBackend("aot_mock_backend", ahead=True)
torchport_mock = MockBackend("torchport_mock", ahead=True)
