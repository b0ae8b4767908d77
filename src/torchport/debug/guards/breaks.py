"""Breaks as a user counts them: by line. Dynamo stops at a line once for each function that was compiled across it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from torchport.debug.guards import advice, wording
from torchport.debug.guards.model import Effect, GraphBreak
from torchport.debug.internals.dynamo_records import RawCompilation, RawFrame, RawStop


class _Compiled(Protocol):
    @property
    def raw(self) -> RawCompilation: ...


class _Break:
    """The compilations that one line ended."""

    def __init__(self, title: str, line: RawFrame) -> None:
        self.title = title
        self.line = line
        self.ended: list[RawCompilation] = []

    def is_at(self, title: str, line: RawFrame) -> bool:
        columns = {self.line.column, line.column}
        is_same_column = len(columns) == 1 or None in columns
        return self.title == title and self.line[:2] == line[:2] and is_same_column

    def add(self, raw: RawCompilation, line: RawFrame) -> None:
        self.ended.append(raw)
        if self.line.column is None:
            self.line = line


def grouped(compiled: Iterable[_Compiled]) -> tuple[GraphBreak, ...]:
    """Each line at which compilations stopped, in the order in which they were met."""
    found: list[_Break] = []
    for one in compiled:
        raw = one.raw
        if not _is_break(raw) or raw.stop is None:
            continue
        title, line = wording.read_reason(raw.stop.text).title, _deepest(raw.stop, raw)
        known = next((known for known in found if known.is_at(title, line)), None)
        if known is None:
            known = _Break(title, line)
            found.append(known)
        known.add(raw, line)
    return tuple(_graph_break(one) for one in found)


def _is_break(raw: RawCompilation) -> bool:
    if raw.is_compiled:
        return raw.is_split
    return raw.error is not None and not raw.is_fatal and raw.limit is None


def _deepest(stop: RawStop, raw: RawCompilation) -> RawFrame:
    if stop.stack:
        return stop.stack[-1]
    return RawFrame(raw.code.co_filename, raw.code.co_firstlineno, raw.code.co_name, None)


def _graph_break(found: _Break) -> GraphBreak:
    """The break as the function that it is in was told of it: the one with the fewest calls in between."""
    nearest = min(found.ended, key=lambda raw: len(raw.stop.stack) if raw.stop else 0)
    deepest = max(found.ended, key=lambda raw: len(raw.stop.stack) if raw.stop else 0)
    assert nearest.stop is not None and deepest.stop is not None
    reason = wording.read_reason(nearest.stop.text)
    stack = deepest.stop.stack or (found.line,)
    line = wording.users_frame(stack) or found.line
    if line == stack[-1]:
        line = line._replace(column=found.line.column)
    place = wording.place(line)
    effect: Effect = "splits the graph" if nearest.is_split else "skips the frame"
    return GraphBreak(
        place=place,
        reason=reason,
        effect=effect,
        stack=tuple(map(wording.place, stack)),
        callers=tuple(map(wording.place, _callers(found, line))),
        compile_ids=tuple(raw.compile_id for raw in found.ended),
        advice=advice.for_break(reason, place),
    )


def _callers(found: _Break, line: RawFrame) -> Iterable[RawFrame]:
    """The user's lines above the break in all stacks that lead to it, each once."""
    above = (frame for raw in found.ended if raw.stop for frame in raw.stop.stack[:-1])
    lines = {frame[:2]: frame for frame in above if wording.is_of_user(frame.file) and frame[:2] != line[:2]}
    return lines.values()
