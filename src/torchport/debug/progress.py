"""A line for each compilation, so that whoever waits for a slow compiler sees what it is at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torchport.debug.guards.gathering import origin
from torchport.debug.internals import dynamo
from torchport.debug.internals.dynamo_records import RawCompilation, RawSkip
from torchport.events import Say
from torchport.explain.repro import counted


@contextmanager
def compilations_said(say: Say) -> Iterator[None]:
    """Within, every compilation of Dynamo's is a line once it ends; there is none if Dynamo cannot be observed."""
    if not dynamo.is_observable():
        yield
        return
    with dynamo.watching(_Lines(say)):
        yield


@dataclass(frozen=True)
class _Lines:
    say: Say

    def compiled(self, raw: RawCompilation) -> None:
        if raw.graph is not None:
            function, resumes_at = origin(raw.code)
            rest = f" after line {resumes_at}" if resumes_at is not None else ""
            size = counted(raw.graph.operations, "operation")
            self.say(f"compiled {function.function}{rest}: {size}, {raw.seconds or 0:.1f} s")

    def skipped(self, raw: RawSkip) -> None:
        """A function that is not compiled is no step."""

    def failed(self, problem: str) -> None:
        """The report has it: the guards are gathered by another observer."""
