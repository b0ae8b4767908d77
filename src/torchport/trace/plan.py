"""The plan of a trace: the calls of modules in the order of execution, and the key of every value.

A model that was captured and one that was only watched by hooks have the same plan, so that both are compared alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from torchport.errors import ManifestError

Event = Sequence[str]
"""("enter" | "exit", the name of the call)."""


@dataclass(frozen=True)
class Call:
    """One call of a module. `inputs` and `outputs` are the keys of the tensors that it is given and gives."""

    name: str
    """The module's path, with `#1`, `#2` … when it is called again; the class's name for the model itself."""
    path: str
    type: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    source: str | None
    """The user's line that makes the call; for the model itself, the line that defines its class."""
    parent: str | None
    """The name of the call that makes this one; None for the model itself."""
    module: str = ""
    """The key of the module in the captured graph, if there is a graph."""


@dataclass
class Plan:
    """The calls of one run. A value that has two keys is stored once; `aliases` has the other key."""

    root: str
    calls: dict[str, Call] = field(default_factory=dict)
    """By name, in the order in which the calls end."""
    events: list[tuple[str, str]] = field(default_factory=list)
    """("enter" | "exit", the name of the call), in the order of execution."""
    aliases: dict[str, str] = field(default_factory=dict)

    def resolve(self, key: str) -> str:
        """The key under which the value of `key` is stored."""
        return self.aliases.get(key, key)


def input_key(call: str, index: int) -> str:
    """The key of the tensor that a call is given at a position."""
    return f"{call}<{index}"


def output_key(call: str, index: int) -> str:
    """The key of the tensor that a call gives at a position."""
    return call if index == 0 else f"{call}:{index}"


def returned_key(root: str, index: int) -> str:
    """The key of a tensor that a program gives in the end, whatever it does with what the root's call gave."""
    return f"{root}>{index}"


def is_returned_key(key: str) -> bool:
    return ">" in key


def call_of(key: str) -> str:
    """The name of the call whose input or output has this key."""
    return _PLACE.sub("", key)


_PLACE = re.compile(r"[<:>]\d+$")


def operation_key(call: str, node: str) -> str:
    """The key of the value of one operation inside a call."""
    return f"{call}/{node}"


def operation_of(key: str) -> str | None:
    """The operation whose value has this key; None if it is the value of a call."""
    _, slash, node = key.rpartition("/")
    return node if slash else None


def is_input_key(key: str) -> bool:
    return "<" in key.rpartition("/")[2]


def input_keys(call: str, count: int) -> list[str]:
    return [input_key(call, index) for index in range(count)]


def output_keys(call: str, count: int) -> list[str]:
    return [output_key(call, index) for index in range(count)]


def checked_events(events: Iterable[Event], calls: Mapping[str, Call]) -> list[tuple[str, str]]:
    """The events, if they and the calls describe the same run."""
    checked = [(kind, name) for kind, name in events]
    entered, left = ([name for kind, name in checked if kind == k] for k in ("enter", "exit"))
    parents = {call.parent for call in calls.values() if call.parent is not None}
    wrong = (set(entered) ^ calls.keys()) | (set(left) ^ calls.keys()) | (parents - calls.keys())
    if wrong or len(checked) != 2 * len(calls):
        names = ", ".join(sorted(wrong)) or "how often a call happens"
        raise ManifestError("TP0305", f"calls and events disagree about {names}", where="events")
    return checked
