"""What is written down of Dynamo while it compiles: text, numbers and code objects, and nothing of Dynamo's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CodeType
from typing import NamedTuple

from torchport.debug.internals.needs import Need

NEEDS: tuple[Need, ...] = ()


class RawFrame(NamedTuple):
    """A line that Dynamo was tracing."""

    file: str
    line: int
    function: str
    column: int | None


@dataclass
class RawStop:
    """Why Dynamo stopped tracing a frame, in its own words."""

    text: str
    stack: tuple[RawFrame, ...]
    """From the frame that was compiled to the line that stopped it."""


@dataclass
class RawFailedGuard:
    text: str
    """Dynamo's words, which begin with the id of the compilation whose guard failed."""
    same_backend: bool
    """Whether that compilation was for the backend that the new one is for."""


@dataclass
class RawGuard:
    source: str
    kind: str
    code: list[str]
    stack: tuple[RawFrame, ...]
    place: str = ""
    """`file:line` with the beginning of the file cut off, if there is no stack."""


@dataclass
class RawGraph:
    operations: int
    traces: tuple[str, ...]
    """The stack traces of its operations, each once."""
    backend_seconds: float = 0.0


@dataclass
class RawCompilation:
    """One attempt of Dynamo to compile a frame, whatever came of it."""

    compile_id: str
    code: CodeType
    thread: int
    backend: str
    is_first: bool
    """Whether nothing was compiled of the code before."""
    seconds: float = 0.0
    is_recompilation: bool = False
    failed_guards: list[RawFailedGuard] = field(default_factory=list)
    limit: tuple[str, int] | None = None
    """Name and value of the limit on recompilations that was reached."""
    stop: RawStop | None = None
    is_split: bool = False
    """Whether its code ends at `stop`, and goes on in a resume function."""
    graph: RawGraph | None = None
    guards: list[RawGuard] = field(default_factory=list)
    is_compiled: bool = False
    skip_reason: str | None = None
    error: str | None = None
    """The type of the exception that ended it; what it says is in `stop`."""
    is_fatal: bool = False
    """Whether that exception went on to the user's code."""


@dataclass
class RawSkip:
    """A frame that Dynamo left alone before it traced anything."""

    code: CodeType
    reason: str
    thread: int


@dataclass
class RawEntry:
    """Compiled code that Dynamo keeps for a function."""

    compile_id: str
    code: CodeType
    """The user's code that it stands for, or that of a resume function."""
    backend: str
    has_graph: bool
    guards: list[RawGuard]
