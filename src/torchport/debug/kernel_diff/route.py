"""The backend under test: how it is given a graph of ATen operations, and how what it makes of it is run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchport.debug.internals import observing
from torchport.debug.kernel_diff.captured import Stage, same_layout
from torchport.errors import UsageError


@dataclass(frozen=True)
class CompiledGraph:
    call: Callable[..., Any]
    kernels: int | None
    """How many kernels it is made of; None if the backend does not say."""

    def run(self, inputs: Sequence[Any]) -> Any:
        """What it gives for copies of the inputs, once the device has computed it."""
        with torch.no_grad():
            found = self.call(*(same_layout(one) for one in inputs))
        synchronize()
        return found


@dataclass(frozen=True)
class Route:
    """The way of a graph into a backend: Inductor's inside, `compile` of an adapter, or as Dynamo would hand it on."""

    name: str
    backend: Any
    """What torch.compile is given."""
    compile_aten: Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]
    is_inductor: bool = False
    says_it_runs_no_kernels: bool = False
    arithmetic: str | None = None
    """The class of arithmetic that it declares."""

    @property
    def decompositions(self) -> Mapping[Any, Any]:
        return observing.inductor_decompositions() if self.is_inductor else {}

    def compile(self, module: torch.fx.GraphModule, given: Sequence[Any], stage: Stage) -> CompiledGraph:
        """What the backend makes of a copy of `module`, which takes what is given."""
        inputs, own = [same_layout(one) for one in given], copy.deepcopy(module)
        with torch.no_grad(), observing.compiling(is_observed=True):
            if self.is_inductor:
                is_backward = stage == "backward"
                return CompiledGraph(*observing.compile_by_inductor(own, inputs, is_backward=is_backward))
            compiled = self.compile_aten(own, inputs)
        if not callable(compiled):
            raise TypeError(f"it returned {type(compiled).__name__}, which cannot be called")
        return CompiledGraph(compiled, None)


def route_of(backend: Any) -> Route:
    """The route into a backend, which is a name, a function as torch.compile takes it, or an adapter."""
    if observing.is_inductor(backend):
        return Route("inductor", backend, observing.backend_of_name("inductor"), is_inductor=True)
    if isinstance(backend, str):
        return Route(backend, backend, _of_name(backend))
    capabilities = getattr(backend, "capabilities", None)
    if capabilities is not None and callable(getattr(backend, "compile", None)):
        return Route(
            name=str(getattr(backend, "name", type(backend).__name__)),
            backend=backend,
            compile_aten=backend.compile,
            says_it_runs_no_kernels=not getattr(backend, "runs_kernels", True),
            arithmetic=getattr(capabilities, "arithmetic", None),
        )
    if not callable(backend):
        raise UsageError(
            "TP1020", f"{backend!r} is no backend", fix="give a name, a function(gm, inputs) or an adapter"
        )
    name = getattr(backend, "__name__", None) or type(backend).__name__
    return Route(str(name), backend, backend)


def _of_name(name: str) -> Callable[..., Any]:
    try:
        return observing.backend_of_name(name)
    except Exception as error:
        known = ", ".join(observing.names_of_backends())
        raise UsageError(
            "TP1020", f"torch.compile knows no backend {name!r}", fix=f"it knows {known}"
        ) from error


def synchronize() -> None:
    """Waits until everything is computed that was asked of a device."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
