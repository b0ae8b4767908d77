"""Where cases are tried: each try is counted, never made twice, and ended if it takes too long."""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torchport.debug.internals.tries import nothing_remembered
from torchport.debug.minifier import failure
from torchport.debug.minifier.case import GraphCase, canonical_text
from torchport.debug.minifier.checks import Check
from torchport.debug.minifier.child import Ended, can_fork, in_child
from torchport.debug.minifier.failure import Failure
from torchport.errors import CompileError
from torchport.explain.repro import counted

T = TypeVar("T")
REPEATS = 5
"""How often a case that fails only sometimes is tried until it counts as one that does not fail."""


@dataclass
class Laboratory:
    check: Check
    limit: float
    """Seconds that a try may take."""
    forks: bool = field(default_factory=can_fork)
    """Whether every try has a process of its own."""
    say: Callable[[str], None] = lambda text: None
    wanted: Failure | None = None
    """The failure that a smaller case must have; None until the whole has been tried."""
    queries: int = 0
    repeats: int = 1
    broken_tries: list[str] = field(default_factory=list)
    """The tries in which the check itself raised."""
    known: dict[str, Failure | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with nothing_remembered():  # What this imports, every process that is split off would import anew.
            pass

    def fails(self, case: GraphCase | None) -> bool:
        """Whether a case fails as the whole does."""
        if case is None:
            return False
        assert self.wanted is not None
        text = canonical_text(case)
        if text not in self.known:
            self.known[text] = self._tried(case)
        return self.wanted.is_kept_by(self.known[text])

    def last_failure(self, case: GraphCase) -> Failure:
        """How a case that was found to fail does so."""
        found = self.known[canonical_text(case)]
        assert found is not None
        return found

    def remember(self, case: GraphCase, found: Failure | None) -> None:
        self.known[canonical_text(case)] = found

    def _tried(self, case: GraphCase) -> Failure | None:
        found = None
        for _ in range(self.repeats):
            try:
                found = self.failure_of(case)
            except CompileError as error:
                self.broken_tries.append(error.message)
            if self.wanted is not None and self.wanted.is_kept_by(found):
                break
        return found

    def failure_of(self, case: GraphCase) -> Failure | None:
        """One try. CompileError if the check itself raises."""
        self.queries += 1
        sizes = f"{counted(len(case.operations), 'operation')}, {counted(case.elements, 'number')}"
        self.say(f"try {self.queries}: {sizes}")
        ended = self.run(lambda: self.check.failure_of(case))
        if ended.is_late:
            return failure.of_hang(self.limit)
        if ended.status is not None:
            return failure.of_ending(ended.status, ended.printed)
        if ended.raised is not None:
            last = ended.raised.strip().splitlines()[-1]
            raise CompileError("TP1043", f"the check of the graph raised: {last}", where=_place(ended.raised))
        return ended.value

    def run(self, function: Callable[[], T]) -> Ended[T]:
        """Runs something with the limits of a try, in a process of its own if possible."""
        if self.forks:
            return in_child(function, self.limit)
        try:
            with _alarm(self.limit):
                return Ended(value=function())
        except _TooLate:
            return Ended(is_late=True)
        except Exception:
            return Ended(raised=traceback.format_exc())


class _TooLate(BaseException):
    """The time of a try is over; nothing that catches Exception may take it for the failure of a backend."""


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Within, Python code is stopped when its time is over; only the main thread can be told so."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: Any) -> None:
        raise _TooLate

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _place(raised: str) -> str | None:
    """The last line of code that a traceback names."""
    lines = [line.strip() for line in raised.splitlines() if line.strip().startswith("File ")]
    return lines[-1].removeprefix("File ") if lines else None
