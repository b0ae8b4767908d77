"""What of a reference is not compared, and why: in the rows of a report, and in its notes if nobody asked for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torchport.parity.result import Layer

NOT_COMPARED = "not compared: "
BY_MAP = "map= leaves it out"
ONLY_OUTPUTS = "only the outputs are compared"
NO_GRADIENT = "no gradient flows to it in either"
NO_SUCH_STATE = "the candidate has no such state"
_IN_ROWS_ONLY = (BY_MAP, ONLY_OUTPUTS, NO_GRADIENT, NO_SUCH_STATE)
_MOST_NAMED = 6


def notes_on(kind: str, reasons: Mapping[str, str]) -> tuple[str, ...]:
    """For each reason a note such as `2 layers are not compared: the candidate never calls it (norm, head)`.

    `reasons` are by the name of a layer or a parameter. One that a user asked for is not noted.
    """
    by_reason: dict[str, list[str]] = {}
    for name, why in reasons.items():
        if why.removeprefix(NOT_COMPARED) not in _IN_ROWS_ONLY:
            by_reason.setdefault(why.removeprefix(NOT_COMPARED), []).append(name)
    return tuple(
        f"{_counted(len(names), kind)} not compared: {why} ({named(names)})"
        for why, names in by_reason.items()
    )


def is_noted(layer: Layer) -> bool:
    """Whether a note of the report says that a layer is not compared."""
    why = layer.uncompared or ""
    return why.startswith(NOT_COMPARED) and why.removeprefix(NOT_COMPARED) not in _IN_ROWS_ONLY


def named(names: Iterable[str]) -> str:
    """The first names, and how many more there are."""
    every = list(names)
    rest = f" and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else ""
    return ", ".join(every[:_MOST_NAMED]) + rest


def _counted(count: int, kind: str) -> str:
    return f"1 {kind} is" if count == 1 else f"{count} {kind}s are"
