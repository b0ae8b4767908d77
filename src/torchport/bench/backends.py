"""The backends that benchmarks know by name: eager PyTorch, the mock, Inductor, adapters, and whatever torch has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchport.debug.adapters.registry import available_adapters, find_adapter
from torchport.debug.backends.mock import aot_mock_backend
from torchport.debug.constraints.base import Violation

EAGER, MOCK, INDUCTOR = "eager", "mock", "inductor"
USUAL = (EAGER, MOCK, INDUCTOR)
_MEANINGS = {
    EAGER: "PyTorch as it is, nothing compiled",
    MOCK: "constraints are checked, eager PyTorch computes",
    INDUCTOR: "torch.compile's own compiler",
}


@dataclass(frozen=True)
class Backend:
    name: str
    given: Any
    """What torch.compile, or KernelDiff, is given; None for eager PyTorch."""
    violations: Callable[[], Sequence[Violation]] | None = None
    """What was found to break a constraint so far; None if the backend checks nothing."""
    runs_kernels: bool = True
    """Whether anything but eager PyTorch computes, as far as the backend says so itself."""


@dataclass(frozen=True)
class Listed:
    """A line of the list of backends."""

    name: str
    what: str
    problem: str | None = None


def open_backend(name: str) -> Backend:
    """The backend of that name. An adapter cannot take the name of one that torchport brings."""
    if name == EAGER:
        return Backend(name, None)
    if name == INDUCTOR:
        return Backend(name, INDUCTOR)
    if name == MOCK:
        return _mock()
    if name in torch.compiler.list_backends(exclude_tags=()) and not _is_adapter(name):  # type: ignore[no-untyped-call]
        return Backend(name, name)
    adapter = find_adapter(name)
    return Backend(
        name, adapter, lambda: adapter.session.distinct_violations, runs_kernels=adapter.runs_kernels
    )


def must_be_known(name: str) -> None:
    """Refuses a name that no backend has, before anything runs."""
    if name not in USUAL:
        open_backend(name)


def listed_backends() -> list[Listed]:
    own = [Listed(name, meaning) for name, meaning in _MEANINGS.items()]
    return own + [
        Listed(found.name, f"adapter of {found.package}", found.problem) for found in available_adapters()
    ]


def _is_adapter(name: str) -> bool:
    return any(found.name == name for found in available_adapters())


def _mock() -> Backend:
    mock = aot_mock_backend(strict=False)
    return Backend(MOCK, mock, lambda: mock.session.distinct_violations, runs_kernels=False)
