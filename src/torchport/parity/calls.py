"""Calls that a candidate makes and the reference does not: whole layers that are called once too often, or for nothing.

In: the calls and events of the reference, and the events of a candidate's run. Out: the calls that are too many, each
with the call that makes it and its place in the order of execution.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from torchport.trace.plan import Call

Place = tuple[str, str] | None
"""The last event of the reference before something; None if there is none."""


@dataclass(frozen=True)
class ExtraCall:
    """A call that only the candidate makes."""

    name: str
    owner: str
    """The call of the reference in which it is made."""
    after: Place

    def reason(self, calls: Mapping[str, Call]) -> str:
        path = _path(self.name)
        number = sum(_path(call.name) == path for call in calls.values())
        if number == 0:
            return f"the port calls {path}, and the model does not"
        times = {1: "once", 2: "twice"}.get(number, f"{number} times")
        return f"the port calls {path} more often than the model does, which calls it {times}"


def _path(name: str) -> str:
    """The path of the module that a call is of."""
    return re.sub(r"#\d+$", "", name)


def extra_calls(
    events: Iterable[tuple[str, str]],
    calls: Mapping[str, Call],
    root: str,
    is_known: Callable[[str], bool],
) -> list[ExtraCall]:
    """The calls in a candidate's events that are none of `calls`, without those that are made inside of them.

    `is_known` says whether the reference makes a call that is not to be compared.
    """
    found: list[ExtraCall] = []
    inside: list[str] = []
    last: Place = None
    for kind, name in events:
        is_extra = name not in calls and not is_known(name)
        if not is_extra:
            last = (kind, name)
        elif kind == "enter" and not any(one.name in inside for one in found):
            owner = next((one for one in reversed(inside) if one in calls), root)
            found.append(ExtraCall(name, owner, last))
        if kind == "enter":
            inside.append(name)
        elif name in inside:
            del inside[inside.index(name) :]
    return found
