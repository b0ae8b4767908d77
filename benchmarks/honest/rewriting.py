"""A kind of honest rewriting: how a candidate is made of a model, and the arithmetic that it declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import nn

from .patching import Replacement, patched

Arithmetic = Literal[
    "eager",
    "float32",
    "transforms",
    "tf32",
    "bf16_products",
    "bf16_sums",
    "fp16_products",
    "fp16_sums",
    "flush_to_zero",
]
"""The coarsest arithmetic that a candidate says it computes in. `float32`: sums in float32, in any order."""
Direction = Literal["forward", "backward"]
BOTH: tuple[Direction, ...] = ("forward", "backward")


@dataclass(frozen=True)
class Example:
    """A model and its inputs."""

    name: str
    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self, model: Any) -> Any:
        return model(*self.args, **self.kwargs)


@dataclass(frozen=True)
class Candidate:
    """The rewritten model."""

    model: Any
    calls: Callable[[], int]
    """How many calls have passed through what was rewritten."""
    reference: nn.Module | None = None
    """What it is compared with, if that is not the model as it is."""
    left_out: Mapping[str, None] = field(default_factory=dict)
    """The paths of modules that it has no counterpart for."""


Build = Callable[[Example], Candidate | None]


@dataclass(frozen=True)
class Rewriting:
    """`build` gives None for a model that has no such part."""

    kind: str
    arithmetic: Arithmetic
    build: Build
    directions: tuple[Direction, ...] = BOTH
    models: frozenset[str] | None = None
    """The only models that it is tried on, if it takes long."""


REWRITINGS: dict[str, Rewriting] = {}


def rewriting(
    kind: str,
    arithmetic: Arithmetic = "float32",
    *,
    directions: tuple[Direction, ...] = BOTH,
    models: frozenset[str] | None = None,
) -> Callable[[Build], Build]:
    """Registers a function that makes a candidate of an example."""

    def decorate(build: Build) -> Build:
        _add(Rewriting(kind, arithmetic, build, directions, models))
        return build

    return decorate


def operation(
    kind: str, *operations: str, arithmetic: Arithmetic = "float32"
) -> Callable[[Replacement], Replacement]:
    """Registers a replacement for operations, wherever a model calls them."""

    def decorate(replacement: Replacement) -> Replacement:
        add_patch(kind, dict.fromkeys(operations, replacement), arithmetic)
        return replacement

    return decorate


def add_patch(kind: str, replacements: Mapping[str, Replacement], arithmetic: Arithmetic = "float32") -> None:
    """Registers replacements of several operations as one kind."""

    def build(example: Example) -> Candidate:
        model, patch = patched(example.model, replacements)
        return Candidate(model, lambda: patch.calls)

    _add(Rewriting(kind, arithmetic, build))


def _add(new: Rewriting) -> None:
    if new.kind in REWRITINGS:
        raise ValueError(f"there are two rewritings {new.kind!r}")
    REWRITINGS[new.kind] = new
