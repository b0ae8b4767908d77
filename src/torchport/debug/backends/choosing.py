"""Which backend a name stands for, and how it is made to tell a session what it is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchport.capture.spec import load_named
from torchport.debug.adapters.base import AcceleratorAdapter
from torchport.debug.backends.holding import Holder
from torchport.debug.backends.inductor import InductorBackend
from torchport.debug.backends.mock import aot_mock_backend
from torchport.debug.constraints.base import Constraint
from torchport.debug.internals.aot_eager import compile_ahead
from torchport.debug.internals.observing import backend_of_name, names_of_backends
from torchport.debug.internals.stopping import stop_compiling
from torchport.debug.session import Session
from torchport.errors import TorchportError, UsageError

Backend = str | Callable[..., Any]
_MOCK, _INDUCTOR = ("mock", "torchport_mock"), ("inductor", "torchport_inductor")


@dataclass(frozen=True)
class Chosen:
    name: str
    plain: Any
    """What KernelDiff and torch.compile take."""
    constraints: Sequence[Constraint] = ()
    """What it holds graphs against by itself."""

    def with_session(self, session: Session, *, strict: bool) -> Any:
        """The backend for torch.compile that tells a session of every graph and holds it against the constraints."""
        if self.name in _MOCK:
            return aot_mock_backend(session=session, strict=strict)
        if self.name in _INDUCTOR:
            return InductorBackend(session=session, strict=strict)
        return Checked(self.plain, session, strict=strict)


class Checked:
    """Any backend, with every graph held against constraints before the backend is given it."""

    def __init__(self, backend: Any, session: Session, *, strict: bool) -> None:
        self.backend, self.holder = backend, Holder(session, session.constraints, strict)
        self.__name__ = f"checked_{getattr(backend, '__name__', type(backend).__name__)}"

    def __call__(self, module: torch.fx.GraphModule, inputs: Sequence[Any], **given: Any) -> Any:
        name = self.holder.session.next_name()
        try:
            self.holder.hold(name, "dynamo", module)
            self._hold_aten(name, module, inputs)
        except TorchportError as error:
            return stop_compiling(error)
        calls = self.holder.calls(name, "dynamo", module)
        return calls.run(self.backend(module, inputs, **given))

    def _hold_aten(self, name: str, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
        # What is compiled here never runs, so the backward graph must not wait for the first backward pass.
        def forward(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
            self.holder.hold(name, "forward", graph)
            return graph.forward

        def backward(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
            self.holder.hold(name, "backward", graph)
            return graph.forward

        try:
            compile_ahead(module, inputs, forward=forward, backward=backward, at_once=True)
        except Exception as error:
            self.holder.aot_failed(name, error)


def chosen(backend: Backend) -> Chosen:
    """The backend of a name (ours, an adapter, what torch.compile knows), of file.py:NAME, or a function as it is."""
    if not isinstance(backend, str):
        return _as_it_is(backend)
    if ":" in backend:
        return _as_it_is(_from_file(backend))
    if backend in _MOCK:
        return Chosen(backend, "torchport_mock")
    if backend in _INDUCTOR:
        return Chosen(backend, "inductor")
    from torchport.debug.adapters.registry import available_adapters, find_adapter

    adapters = [one.name for one in available_adapters()]
    if backend in adapters:
        found = find_adapter(backend)
        return Chosen(backend, found, _own_constraints(found))
    try:
        return Chosen(backend, backend_of_name(backend))
    except Exception as error:
        known = ", ".join(sorted({*names_of_backends(), *adapters, "mock"}))
        raise UsageError(
            "TP1020",
            f"there is no backend {backend!r}",
            fix=f"Give file.py:NAME for one of your own. There are {known}.",
        ) from error


def _as_it_is(backend: Any) -> Chosen:
    if not callable(backend):
        raise UsageError("TP1020", f"{backend!r} is no backend", fix="give a name, a function or an adapter")
    name = getattr(backend, "name", None) or getattr(backend, "__name__", type(backend).__name__)
    return Chosen(str(name), backend, _own_constraints(backend))


def _from_file(spec: str) -> Any:
    """What a SPEC names: an adapter, a function that torch.compile takes, or a class or function that makes either."""
    named = load_named(spec)
    return named() if _takes_nothing(named) else named


def _takes_nothing(named: Callable[..., Any]) -> bool:
    try:
        inspect.signature(named).bind()
    except (TypeError, ValueError):
        return False
    return not isinstance(named, AcceleratorAdapter)


def _own_constraints(backend: Any) -> Sequence[Constraint]:
    capabilities = getattr(backend, "capabilities", None)
    return () if capabilities is None else tuple(capabilities.constraints())
