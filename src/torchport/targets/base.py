"""What a target is: somewhere else that a captured model is made to run.

A target registers itself under its name; nothing outside its own folder knows how it works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from torchport.capture.graph import Graph
from torchport.errors import ConvertError

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Unmapped:
    """An operation that the target cannot express."""

    op: str
    layer: str
    source: str | None
    reason: str


@dataclass(frozen=True)
class Conversion:
    """What a target wrote: where, and what it left undone."""

    folder: Path
    files: dict[str, Path]
    unmapped: tuple[Unmapped, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Repro:
    """How others run a port: a test in the target's own language, and the port called from Python."""

    test: Path
    candidate: str
    """Python source of `candidate(inputs, here)`, which runs the port in the folder `here`, and of `run_test(here)`,
    which gives the status of the test."""


class Target(Protocol):
    name: str

    def maps(self, op: str) -> bool:
        """Whether an operation is mapped whole; the others are decomposed while capturing."""
        ...

    def convert(
        self, graph: Graph, weights: Path | None, folder: Path, *, checks: str, hints: dict[str, Any]
    ) -> Conversion: ...

    def source(self, conversion: Conversion) -> Path | None:
        """The file of the port that a user reads and may edit, if there is one."""
        ...

    def build(self, conversion: Conversion, progress: Progress) -> Path: ...

    def write_repro(self, conversion: Conversion, trace: Path, limits: Sequence[float]) -> Repro:
        """Writes a test of the target's own that fails where an output is further from the trace than its limit."""
        ...

    def run(self, conversion: Conversion, program: Path, trace: Path, mode: str, record: Path) -> str | None:
        """Runs the port along a golden trace and records what it computes; gives why it stopped, if so."""
        ...


_MODULES = {"candle": "torchport.targets.candle.target"}


def find_target(name: str) -> Target:
    if name not in _MODULES:
        raise ConvertError(
            "TP0402", f"there is no target {name!r}", fix=f"the targets are: {', '.join(_MODULES)}"
        )
    return import_module(_MODULES[name]).TARGET
