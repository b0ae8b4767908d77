"""What a target is: somewhere else that a captured model is made to run. Nothing outside its folder knows how.

A target turns a graph into an artifact. An artifact runs along a golden trace and records what it computes, in this
process or behind a program. `tests/targets` has the promises that every target keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

from pydantic import BaseModel, ConfigDict

from torchport.events import Say

if TYPE_CHECKING:
    import torch

    from torchport.capture.graph import Graph, TensorMeta

Mode = Literal["lockstep", "chained"]
"""What a layer goes on with: the golden value, or the value that was computed."""


class Todo(BaseModel):
    """An operation that the target cannot express: which, in which layer, on which line, and why."""

    model_config = ConfigDict(frozen=True)

    op: str
    layer: str
    source: str | None = None
    reason: str


class Stopped(BaseModel):
    """Why an artifact ended before its end; `todo` if it came to an operation that is still to be written."""

    model_config = ConfigDict(frozen=True)

    message: str
    todo: Todo | None = None


class Options(BaseModel):
    """The options of a target. A target that has some derives from it; what it does not know is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def records_operations(self) -> bool:
        """Whether the recording must hold the value of every operation, beside those of the calls."""
        return False

    @property
    def names_sizes(self) -> bool:
        """Whether the artifact is for all sizes of the model, so that the capture must show what follows from which."""
        return False

    @property
    def allows_random(self) -> bool:
        """Whether a model that draws random numbers is ported, with what depends on them left out of the verdict."""
        return False

    def watching_operations(self) -> Self:
        """The same options for an artifact that shows the value of every operation."""
        return self


class Diagnosis(NamedTuple):
    """One thing that was looked for on this machine, and how to get it if it is missing."""

    name: str
    status: Literal["ok", "missing", "optional"]
    found: str
    fix: str | None = None


Requirement = Callable[[], Diagnosis]
"""Looks for something that a target needs; `torchport doctor` shows what it finds."""


@dataclass(frozen=True)
class Stretch:
    """Some lines of a file that belong together."""

    file: str
    first: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class SourceMap:
    """The source of an artifact as it is now: its units (structs, classes) and which module each one is."""

    language: str
    """As a reader calls it, such as Python."""
    lexer: str
    """As a highlighter calls it."""
    units: dict[str, tuple[Stretch, ...]]
    """Name of a unit → the lines that are its own."""
    unit_of: dict[str, str]
    """Key of a module of the graph → its unit; a module that is only a part of another's unit has none."""
    edited: tuple[int, ...] = ()
    """The lines that are not as they were generated."""


@dataclass(frozen=True)
class Repro:
    """How others run an artifact: called from Python and, if the target has such, by a test in its own language."""

    candidate: str
    """Python source of `candidate(inputs, here)`, which runs the artifact in the folder `here`, and of
    `run_test(here)`, which gives whether the test fails."""
    needs: str
    """What it needs beside Python packages, such as the name of a compiler."""
    test: Path | None = None
    test_label: str = "test"


class Artifact(Protocol):
    """A model that a target has converted, in a folder."""

    @property
    def folder(self) -> Path: ...

    @property
    def todos(self) -> tuple[Todo, ...]:
        """What the target cannot express. What a user has written by hand since is no longer among it."""
        ...

    @property
    def stored(self) -> Path | None:
        """The file with the weights as the artifact loads them, under the graph's names."""
        ...

    def sources(self, graph: Graph) -> SourceMap | None:
        """The source that a user reads and may edit; None if there is none."""
        ...

    def edits(self) -> tuple[str, ...]:
        """Where the source is no longer what was generated, as hunks of a unified diff."""
        ...

    def variants(self, edited: Artifact) -> Iterator[bool]:
        """Makes the edits of another artifact in this one's source, one way after the other, and undoes them again.

        Gives True for each way, then, with the source as it was generated, False.
        """
        ...

    def prepare(self, say: Say) -> None:
        """Makes the artifact ready to run, however long that takes; builds it, for instance."""
        ...

    def run(self, golden: Path, mode: Mode, record: Path) -> Stopped | None:
        """Runs along a golden trace and leaves what it computes in the trace `record`, also if it stops early.

        The metadata of the trace has `events`, the calls as they began and ended, and what the artifact gives in the
        end is there as well, under `returned_key`: `Follower.returned` writes it.
        """
        ...

    def write_repro(self, golden: Path, limits: Sequence[float]) -> Repro:
        """Writes what others need to see it fail: an output may be as far from the golden one as its limit."""
        ...


@runtime_checkable
class Resizable(Protocol):
    """An artifact that is the model at other sizes, too."""

    def resized(
        self, sizes: Mapping[str, Any], graph: Graph, weights: Mapping[str, torch.Tensor], place: Path
    ) -> Artifact | None:
        """The same code with other sizes and other weights, written to `place`; None if no size that it reads is
        another."""
        ...

    def at_sizes(self, place: Path) -> Artifact:
        """The same code with the sizes and weights that were written to `place` before."""
        ...


@runtime_checkable
class RunsInBlocks(Protocol):
    """An artifact that also runs on weights in the blocks of a quantised format."""

    def on_weights(self, file: Path) -> Artifact:
        """The same code, made ready already, on the weights of a GGUF file."""
        ...

    @property
    def code_digest(self) -> str:
        """What is another as soon as the code that runs is another."""
        ...

    def multiplies_blocks(self, graph: Graph, weight: str) -> bool:
        """Whether a weight stays in blocks when it is used; one that does not is made floats when it is loaded."""
        ...


class Timing(BaseModel):
    """What a run of a model takes where it was measured: indicative, since a machine has other work, too."""

    model_config = ConfigDict(frozen=True)

    seconds: float
    """Of a typical run, or the best."""
    runs: int
    threads: int
    bytes: int | None = None
    """The memory of the process: the most that the port's has had, and what that of PyTorch has after its runs."""


@runtime_checkable
class Timed(Protocol):
    """An artifact that can say what a run of it takes."""

    def timed(self, golden: Path, threads: int, budget: float) -> Timing | None:
        """Runs on the inputs of a golden trace for some seconds, unwatched; None if that cannot be done."""
        ...


class Target(Protocol):
    """A way to run a captured model somewhere else."""

    @property
    def name(self) -> str: ...

    @property
    def project(self) -> str:
        """What the folder of an artifact is called in the folder of a run."""
        ...

    @property
    def editable(self) -> str | None:
        """The file that a user edits, from the folder of an artifact; None if there is none."""
        ...

    @property
    def options(self) -> type[Options]: ...

    @property
    def requirements(self) -> Sequence[Requirement]: ...

    def supports(self, op: str) -> bool:
        """Whether an operation is expressed whole; the others are decomposed while the model is captured."""
        ...

    def convert(
        self, graph: Graph, weights: Mapping[str, torch.Tensor] | None, folder: Path, options: Any
    ) -> Artifact:
        """Writes the artifact to `folder`. Without weights (a model on the meta device) it cannot be run."""
        ...

    def open(self, folder: Path, name: str) -> Artifact:
        """The artifact that was written to `folder` before, of the capture called `name`."""
        ...


@runtime_checkable
class StoresOtherwise(Protocol):
    """A target whose artifacts load some weights in another form than the model has them in."""

    def stored_as(self, meta: TensorMeta) -> TensorMeta:
        """The shape and dtype in which a weight of these is loaded."""
        ...


@runtime_checkable
class LeavesBeside(Protocol):
    """A target that writes folders beside that of the artifact."""

    @property
    def beside(self) -> Sequence[str]:
        """What these folders are called, in the folder of a run."""
        ...


def beside_of(target: Target) -> tuple[str, ...]:
    """The folders that a target writes beside that of an artifact."""
    return tuple(target.beside) if isinstance(target, LeavesBeside) else ()


@dataclass(frozen=True)
class Cached:
    """Something that a target keeps on this machine so that it need not be made again."""

    name: str
    about: str
    bytes: int
    stale: bool
    """Whether nothing will ask for it again, as far as can be known."""


@runtime_checkable
class KeepsCache(Protocol):
    """A target that keeps things in the cache of this machine, which `torchport cache` shows and clears."""

    def cached(self, days: float) -> list[Cached]:
        """Everything that is kept; what was not used for `days` days is stale."""
        ...

    def clear_cache(self, *, everything: bool, days: float, say: Say) -> int:
        """Removes what is stale, or everything, and gives how many bytes that freed."""
        ...


@runtime_checkable
class WritesCode(Protocol):
    """A target that can write the code of a graph to one file, as `torchport codegen` asks for."""

    def write_code(self, graph: Graph, file: Path | None, options: Any, model: str | None) -> WrittenCode: ...


MarkerType = Literal["operation", "form", "control flow", "unknown", "other"]
"""What a marker stands for: an operation that nothing maps, a form of one that is mapped otherwise, control flow, what
torch.export could not follow, or something else."""


class Marker(BaseModel):
    """A place in generated code where something is left to do."""

    model_config = ConfigDict(frozen=True)

    type: MarkerType
    line: int
    reason: str
    suggestion: str
    op: str | None = None
    module: str | None = None
    """The class of the user's model that needs it."""
    source: str | None = None
    """The line of the user's model."""


@runtime_checkable
class LeavesMarkers(Protocol):
    """A target whose code has markers where something is left to do, as `torchport todos` lists them."""

    def markers(self, text: str) -> list[Marker] | None:
        """The markers in the text of a file; None if this target did not generate it."""
        ...


@dataclass(frozen=True)
class NamedNumber:
    """A number that generated code has a name for, and why."""

    expression: str
    value: int | float
    layer: str
    role: str | None
    reason: str


@dataclass(frozen=True)
class WrittenCode:
    """What became of a graph as code: the name of the model in it, its config, and what is still to be done."""

    model: str
    config: dict[str, int | float | list[int | float]]
    todos: tuple[Todo, ...] = field(default=())
    names: tuple[NamedNumber, ...] = ()
