"""The calls of one run and the tensors at their borders: what all recorded runs have in common."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from torch import Tensor

from torchport.candidates.leaves import Path
from torchport.candidates.places import PlacedTensor
from torchport.candidates.probing import WatchedCall
from torchport.trace.plan import Event

Identity = TypeVar("Identity", bound=Hashable)


@dataclass
class RecordedRun(Generic[Identity]):
    """The calls in order, the identity of each tensor at their borders, and the values by identity."""

    calls: dict[str, WatchedCall] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    given: dict[str, list[PlacedTensor]] = field(default_factory=dict)
    returned: dict[str, list[PlacedTensor]] = field(default_factory=dict)
    inputs: dict[str, list[Identity]] = field(default_factory=dict)
    outputs: dict[str, list[Identity]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    """The calls that ended in an error."""

    @property
    def root(self) -> str:
        return next(iter(self.calls))

    def log_enter(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> None:
        self.calls[call.name] = call
        self.events.append(("enter", call.name))
        self.given[call.name] = _placed(tensors, places)

    def log_leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> None:
        self.events.append(("exit", call.name))
        self.returned[call.name] = _placed(tensors, places)

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        raise NotImplementedError

    def raised(self, call: WatchedCall) -> None:
        self.failed.add(call.name)
        self.leave(call, [], [])

    def value(self, identity: Identity) -> Tensor:
        raise NotImplementedError

    def values_given(self, name: str) -> list[Tensor]:
        return [self.value(identity) for identity in self.inputs[name]]

    def by_path(self) -> Mapping[str, list[str]]:
        """The names of the calls of each module, in order."""
        found: dict[str, list[str]] = {}
        for name, call in self.calls.items():
            found.setdefault(call.path, []).append(name)
        return found


def _placed(tensors: list[Tensor], places: list[Path]) -> list[PlacedTensor]:
    return [PlacedTensor.of(place, tensor) for place, tensor in zip(places, tensors, strict=True)]
