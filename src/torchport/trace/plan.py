"""The calls that a trace is of, as the manifest lists them, and the order of their execution."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from torchport.errors import ManifestError


class Call(Protocol):
    """One call of a module as the manifest lists it; `inputs` and `outputs` are trace keys."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def inputs(self) -> Sequence[str]: ...
    @property
    def outputs(self) -> Sequence[str]: ...
    @property
    def source(self) -> str | None: ...
    @property
    def parent(self) -> str | None: ...


Event = Sequence[str]
"""("enter" | "exit", name of the call)."""


def checked_events(events: Iterable[Event], calls: Mapping[str, Call]) -> list[tuple[str, str]]:
    """The events, if they and the calls tell of the same run."""
    checked = [(kind, name) for kind, name in events]
    entered, left = ([name for kind, name in checked if kind == k] for k in ("enter", "exit"))
    parents = {call.parent for call in calls.values() if call.parent is not None}
    wrong = (set(entered) ^ calls.keys()) | (set(left) ^ calls.keys()) | (parents - calls.keys())
    if wrong or len(checked) != 2 * len(calls):
        names = ", ".join(sorted(wrong)) or "how often a call happens"
        raise ManifestError("TP0305", f"calls and events disagree about {names}", where="events")
    return checked
