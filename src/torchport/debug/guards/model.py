"""What is known after an inspection: plain data, which goes to text, to JSON and into reports."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

SCHEMA = 1

Outcome = Literal["compiled", "skipped", "failed", "over the limit"]
"""What came of an attempt to compile a frame. A frame that is skipped or over the limit runs uncompiled."""
Effect = Literal["splits the graph", "skips the frame"]


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Place(_Data):
    """A line of source."""

    file: str
    line: int
    function: str = ""
    code: str = ""
    """The text of the line; "" if it is not to be had."""
    column: int | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Reason(_Data):
    """Why Dynamo stopped, in its own words, taken apart."""

    title: str
    """Dynamo's name for it: "Data-dependent branching"."""
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    """Dynamo's own notes on the value or call in question."""
    then: str = ""
    """What else went wrong because of it: "graph break in loop"."""


class Guard(_Data):
    """A condition under which a graph may be used."""

    source: str
    """What is looked at: `L['x']` is the argument x, `G['scale']` a global; "" is the state of torch itself."""
    kind: str
    """Dynamo's name for the kind of guard: TENSOR_MATCH, CONSTANT_MATCH, SHAPE_ENV."""
    code: tuple[str, ...]
    """What is checked."""
    cause: Place | None = None
    """The user's line that needed it."""


class FailedGuard(_Data):
    graph: str
    """The id of the compilation that could not be used."""
    reason: str
    cause: Place | None = None
    """The user's line that needed the guard, if Dynamo says it."""


class Compilation(_Data):
    """One attempt of Dynamo to compile a function, or the rest of one after a break."""

    compile_id: str
    """Dynamo's own: "1/2" is the third compilation of the second piece of code."""
    function: Place
    """Where the user's function begins; for the rest of a function, the same."""
    resumes_at: int | None = None
    """The line of the break after which it goes on; None if it begins at the beginning."""
    outcome: Outcome
    call: int | None = None
    """Which of the calls led to it, from 0."""
    thread: int = 0
    """The number of the thread that compiled, from 0 in order of appearance."""
    backend: str = ""
    was_there: bool = False
    """Whether it was compiled before the inspection began."""
    has_graph: bool = False
    """Whether there is anything in it for a backend: a function that breaks at once has no graph."""
    operations: int | None = None
    """How many operations the graph has; None if there is no graph, or it was made before."""
    lines: tuple[str, ...] = ()
    """The user's lines that its operations come from, `file:line`."""
    guards: tuple[Guard, ...] = ()
    seconds: float | None = None
    backend_seconds: float | None = None
    """What the backend took of that."""
    failed_guards: tuple[FailedGuard, ...] = ()
    """For a recompilation: of each earlier compilation, the guard that failed."""

    @property
    def name(self) -> str:
        """The function, and where it goes on."""
        return self.function.function + (
            f" after line {self.resumes_at}" if self.resumes_at is not None else ""
        )


class GraphBreak(_Data):
    """A line at which Dynamo stops. If several functions call it, or it is compiled again, it is still one break."""

    place: Place
    reason: Reason
    effect: Effect
    stack: tuple[Place, ...]
    """From a function that was compiled to the line; the deepest line may be in torch."""
    callers: tuple[Place, ...] = ()
    """The user's lines that call the function it is in, and were compiled with it."""
    compile_ids: tuple[str, ...]
    """The compilations that it ended, also those of functions that call the one it is in."""
    advice: str | None = None


class Recompilation(_Data):
    compile_id: str
    function: Place
    resumes_at: int | None = None
    call: int | None = None
    failed_guards: tuple[FailedGuard, ...]
    advice: str | None = None

    @property
    def reason(self) -> str:
        """Why the compilation that was tried first, the one used last, could not be used."""
        return self.failed_guards[0].reason if self.failed_guards else "Dynamo gives no reason"


class RecompileLimit(_Data):
    """A function that was compiled so often that Dynamo no longer tries: it runs uncompiled from then on."""

    function: Place
    resumes_at: int | None = None
    setting: str
    """The setting of torch._dynamo.config: recompile_limit or accumulated_recompile_limit."""
    limit: int
    compile_id: str
    call: int | None = None
    failed_guards: tuple[FailedGuard, ...]
    advice: str | None = None


class SkippedFrame(_Data):
    """A function that runs uncompiled."""

    function: Place
    reason: str
    compile_id: str | None = None
    """None if Dynamo did not even begin to trace it."""
    call: int | None = None


class Failure(_Data):
    """An error that ended a call."""

    error: str
    """Its type."""
    message: str
    place: Place | None = None
    call: int | None = None
    compile_id: str | None = None
    """The compilation that it ended; None if the code failed when it ran."""
    advice: str | None = None


class GuardReport(_Data):
    """All that happened, in the order in which it happened."""

    schema_version: int = SCHEMA
    subject: str
    """The function, module or run that was looked at."""
    torch_version: str
    calls: int | None = None
    """How many calls were made; None for a run of the user's own."""
    compilations: tuple[Compilation, ...] = ()
    breaks: tuple[GraphBreak, ...] = ()
    recompilations: tuple[Recompilation, ...] = ()
    limits: tuple[RecompileLimit, ...] = ()
    skipped: tuple[SkippedFrame, ...] = ()
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    """What was not or could not be observed, and what the inspection left behind."""
    seconds: float = 0.0

    @property
    def graphs(self) -> tuple[Compilation, ...]:
        """The compilations that a backend made something of."""
        return tuple(one for one in self.compilations if one.has_graph and one.outcome == "compiled")

    @property
    def compile_seconds(self) -> float:
        return sum(one.seconds or 0.0 for one in self.compilations)

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    def to_json(self) -> str:
        return self.model_dump_json(indent=2)

    def summary(self, guards: bool = False) -> str:
        """The report as text for a terminal; with every guard of every graph if asked for."""
        from torchport.debug.guards.render import render

        return render(self, guards=guards)
