"""What the reference computes: its calls in order, and the value at every border of a call."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from torchport.candidates.call_pairing import CallPairs
from torchport.candidates.identity import Identities, TensorIdentity, has_same_bits
from torchport.candidates.leaves import Path
from torchport.candidates.probing import NotRepeated, WatchedCall
from torchport.candidates.recorded_run import RecordedRun
from torchport.trace.plan import Call, Plan, input_key, output_key


@dataclass
class Recording(RecordedRun[TensorIdentity], NotRepeated):
    """A probe that changes nothing. One tensor at two borders is one value."""

    other: Recording | None = None
    """A run of the other model: values that are the same in both are kept once."""
    values: dict[TensorIdentity, Tensor] = field(default_factory=dict)
    identities: Identities = field(default_factory=Identities)

    def enter(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        self.log_enter(call, tensors, places)
        likely = {} if self.other is None else self.other.inputs
        self.inputs[call.name] = self._kept(tensors, likely.get(call.name, []))
        return tensors

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        self.log_leave(call, tensors, places)
        likely = {} if self.other is None else self.other.outputs
        self.outputs[call.name] = self._kept(tensors, likely.get(call.name, []))
        return tensors

    def value(self, identity: TensorIdentity) -> Tensor:
        return self.values[identity]

    def _kept(self, tensors: list[Tensor], likely: list[TensorIdentity]) -> list[TensorIdentity]:
        """The identities of tensors, whose values are kept. `likely` are those of the other run at the same places."""
        found = [self.identities.of(tensor) for tensor in tensors]
        for tensor, identity, other in zip_longest(tensors, found, likely[: len(found)]):
            if identity not in self.values:
                self.values[identity] = self._copy(tensor, other)
        return found

    def _copy(self, tensor: Tensor, likely: TensorIdentity | None) -> Tensor:
        known = None if self.other is None or likely is None else self.other.values[likely]
        return known if known is not None and has_same_bits(known, tensor) else tensor.detach().clone()


@dataclass(frozen=True)
class Places:
    """Where the tensor of each key of a call is in one of the two models, in the order of the keys."""

    given: Mapping[str, list[Path]]
    returned: Mapping[str, list[Path]]


@dataclass
class GoldenPlan(Plan):
    """The calls that are compared, with the golden value of each of their keys, by its own key or an alias."""

    values: Mapping[str, Tensor] = field(default_factory=dict)
    places: dict[str, Places] = field(default_factory=dict)
    """For the reference and for the candidate."""
    dtypes: dict[str, torch.dtype] = field(default_factory=dict)
    """By key, the dtype of the candidate's tensor."""
    without_outputs: set[str] = field(default_factory=set)
    """Calls of the candidate that return nothing that stands for an output of the reference's."""

    def value(self, key: str) -> Tensor:
        return self.values[self.resolve(key)]


def make_plan(
    golden: RecordedRun[Any],
    candidate: RecordedRun[Any],
    pairs: CallPairs,
    *,
    source: Callable[[WatchedCall], str | None],
) -> GoldenPlan:
    """The plan of the calls that are paired; a call's parent is the nearest one that is paired, too."""
    return _Planning(golden, candidate, pairs, source).plan()


@dataclass
class _Planning:
    golden: RecordedRun[Any]
    candidate: RecordedRun[Any]
    pairs: CallPairs
    source: Callable[[WatchedCall], str | None]
    owner: dict[Hashable, str] = field(default_factory=dict)
    values: dict[str, Tensor] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    def plan(self) -> GoldenPlan:
        plan = GoldenPlan(self.golden.root, aliases=self.aliases)
        inputs: dict[str, list[str]] = {}
        for kind, name in self.golden.events:
            if name not in self.pairs.calls:
                continue
            plan.events.append((kind, name))
            if kind == "enter":
                inputs[name] = self._inputs(name)
            else:
                plan.calls[name] = self._call(name, inputs[name])
        plan.values = self.values
        plan.places = {"reference": self._places(), "candidate": self._places_in_candidate()}
        plan.dtypes = self._dtypes_in_candidate()
        plan.without_outputs = {
            name
            for name, pair in self.pairs.calls.items()
            if self.golden.returned[name] and not pair.outputs and not pair.hides_outputs
        }
        return plan

    def _call(self, name: str, inputs: list[str]) -> Call:
        call = self.golden.calls[name]
        outputs = [
            self._keyed(output_key(name, index), self.golden.outputs[name][index])
            for index in self._outputs(name)
        ]
        parent = call.parent
        while parent is not None and parent not in self.pairs.calls:
            parent = self.golden.calls[parent].parent
        return Call(name, call.path, call.type, inputs, outputs, self.source(call), parent)

    def _inputs(self, name: str) -> list[str]:
        given = self.golden.inputs[name]
        return [self._keyed(input_key(name, index), given[index]) for index in self.pairs.calls[name].inputs]

    def _outputs(self, name: str) -> list[int]:
        """The positions of the outputs that are compared: all of them, if the candidate has none of them."""
        pair = self.pairs.calls[name]
        if pair.hides_outputs:
            return []
        return list(pair.outputs) or list(range(len(self.golden.outputs[name])))

    def _keyed(self, key: str, identity: Hashable) -> str:
        first = self.owner.setdefault(identity, key)
        if first == key:
            self.values[key] = self.golden.value(identity)
        else:
            self.aliases[key] = first
        return key

    def _places(self) -> Places:
        log, calls = self.golden, self.pairs.calls
        return Places(
            {name: [log.given[name][index].place for index in pair.inputs] for name, pair in calls.items()},
            {name: [log.returned[name][index].place for index in self._outputs(name)] for name in calls},
        )

    def _places_in_candidate(self) -> Places:
        log, pairs = self.candidate, self.pairs.calls.items()
        return Places(
            {n: [log.given[p.candidate][index].place for index in p.inputs.values()] for n, p in pairs},
            {n: [log.returned[p.candidate][index].place for index in p.outputs.values()] for n, p in pairs},
        )

    def _dtypes_in_candidate(self) -> dict[str, torch.dtype]:
        log, found = self.candidate, dict[str, torch.dtype]()
        for name, pair in self.pairs.calls.items():
            given, returned = log.given[pair.candidate], log.returned[pair.candidate]
            found |= {input_key(name, index): given[place].dtype for index, place in pair.inputs.items()}
            found |= {output_key(name, index): returned[place].dtype for index, place in pair.outputs.items()}
        return found
