"""The backend under test: how it is given a graph of ATen operations, and how what it makes of it is run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from torchport.debug.backends.choosing import chosen
from torchport.debug.internals import observing
from torchport.debug.kernel_diff.captured import Stage, same_layout


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
    own_decompositions: Mapping[Any, Any] = field(default_factory=dict)
    """How it wants operations taken apart."""

    @property
    def decompositions(self) -> Mapping[Any, Any]:
        return observing.inductor_decompositions() if self.is_inductor else self.own_decompositions

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
    found = chosen(backend)
    plain = found.plain
    if observing.is_inductor(plain):
        return Route("inductor", plain, observing.backend_of_name("inductor"), is_inductor=True)
    if isinstance(plain, str):
        compile = observing.backend_of_name(plain)
        return Route(found.name, plain, compile, says_it_runs_no_kernels=_runs_no_kernels(compile))
    capabilities = getattr(plain, "capabilities", None)
    is_adapter = capabilities is not None and callable(getattr(plain, "compile", None))
    return Route(
        name=found.name,
        backend=plain,
        compile_aten=plain.compile if is_adapter else plain,
        says_it_runs_no_kernels=_runs_no_kernels(plain),
        arithmetic=getattr(capabilities, "arithmetic", None) if is_adapter else None,
        own_decompositions=getattr(plain, "decompositions", None) or {},
    )


def _runs_no_kernels(backend: Any) -> bool:
    """Whether a backend is known to compute by eager PyTorch alone: it is eager, or says so in `runs_kernels`."""
    return observing.is_eager(backend) or not getattr(backend, "runs_kernels", True)


def synchronize() -> None:
    """Waits until everything is computed that was asked of a device."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
