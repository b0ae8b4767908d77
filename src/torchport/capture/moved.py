"""Which numbers of a model move with which fields of its config: what a field that is changed alone changes.

In: the trace of a trial after each change. Out: for every number that changed, the fields whose changes it followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchport.capture.graph import Move

Fields = frozenset[str]


class Moves:
    """Follows the numbers of a trace through changes that are made one after another."""

    def __init__(self, trace: Sequence[object]):
        self._first = set(_numbers(trace))
        self._now = list(_numbers(trace))
        self._before: list[tuple[int | float | None, Fields]] = [
            (number, frozenset()) for number in self._now
        ]
        self._is_known = True

    def changed(self, names: Iterable[str], trace: Sequence[object]) -> None:
        """Notes that the fields with these names were changed, which made this the trace."""
        if not self._is_known:
            return
        numbers = list(_numbers(trace))
        if len(numbers) == len(self._now):
            pairs = zip(self._before, self._now, numbers, strict=True)
            self._before = [
                (first, fields.union(names) if old != new else fields) for (first, fields), old, new in pairs
            ]
        elif any(fields for _, fields in self._before):
            self._is_known = False
        else:  # It has more layers: what was a number before still is, and what is new is of no number before.
            self._before = [(new if new in self._first else None, frozenset()) for new in numbers]
        self._now = numbers

    def found(self) -> tuple[Move, ...]:
        """Every number that changed: what it was, what it is, and the fields that it moves with."""
        fields: dict[tuple[int | float, int | float], Fields] = {}
        if self._is_known:
            for (first, moved_with), now in zip(self._before, self._now, strict=True):
                if first is not None and moved_with:
                    fields[first, now] = fields.get((first, now), frozenset()) | moved_with
        return tuple(Move(first, now, tuple(sorted(names))) for (first, now), names in fields.items())


def _numbers(trace: object) -> Iterable[int | float]:
    if isinstance(trace, int | float):
        yield trace
    elif isinstance(trace, list | tuple):
        for item in trace:
            yield from _numbers(item)
