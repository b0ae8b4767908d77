"""The least program that has the same fault, by hypothesis, which goes back to where it made the program."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from hypothesis import Phase, given

from benchmarks.programs.judging import Fault, judged
from benchmarks.programs.making import AT_ONCE, settings_for
from benchmarks.programs.strategy import Program, programs

_SECONDS = 120.0
"""For how long a program is made smaller; what is the least by then is given."""


def shrunk(program: Program, fault: Fault, folder: Path) -> tuple[Program, Fault]:
    """The least program that was found to have a fault of the same kind, and what is said of it."""
    search = _Search(program, fault, folder)

    @settings_for(program.origin, AT_ONCE, [Phase.generate, Phase.shrink])
    @given(programs())
    def look(candidate: Program) -> None:
        if search.fails(candidate):
            raise _StillFails

    with suppress(_StillFails, _TimeIsUp):
        look()
    return search.least


class _StillFails(Exception):
    pass


class _TimeIsUp(BaseException):
    """Not an Exception, which hypothesis would take for another fault."""


class _Search:
    """Which programs have the fault: none but the one that is known, until hypothesis has come to it."""

    def __init__(self, program: Program, fault: Fault, folder: Path):
        self.least = (program, fault)
        self._folder, self._fault = folder, fault
        self._known: dict[str, bool] = {}
        self._first = program.source
        self._end = time.monotonic() + _SECONDS

    def fails(self, candidate: Program) -> bool:
        if candidate.source == self._first:
            self._known[self._first] = True
        if self._first not in self._known:
            return False
        if candidate.source not in self._known:
            self._known[candidate.source] = self._looked_at(candidate)
        return self._known[candidate.source]

    def _looked_at(self, candidate: Program) -> bool:
        if time.monotonic() > self._end:
            raise _TimeIsUp
        name = f"try_{len(self._known)}"
        found = judged({name: candidate}, self._folder, proofs=1).faults.get(name)
        is_same = found is not None and found.is_like(self._fault)
        if is_same and found is not None and len(candidate.source) <= len(self.least[0].source):
            self.least = (candidate, found)
        return is_same
