"""What the reference computes: its calls in order, and the value at every border of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from torchport.candidates.leaves import Path
from torchport.candidates.probing import NotRepeated, WatchedCall
from torchport.trace.plan import Call, Event, Plan, input_keys, output_keys

TensorIdentity = tuple[int, int]
"""Which tensor it is, and how often it had been written to, or the hash of its values where that is not known."""


def identity_of(tensor: Tensor) -> TensorIdentity:
    """What is written to a tensor that was made in inference mode is not counted, so its values are looked at."""
    return id(tensor), hash(bytes_of(tensor)) if tensor.is_inference() else tensor._version


def bytes_of(tensor: Tensor) -> bytes:
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return plain.view(torch.uint8).numpy().tobytes()


@dataclass
class Recording(NotRepeated):
    """A probe that changes nothing. One tensor at two borders is one value."""

    calls: dict[str, WatchedCall] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    inputs: dict[str, list[TensorIdentity]] = field(default_factory=dict)
    outputs: dict[str, list[TensorIdentity]] = field(default_factory=dict)
    given_at: dict[str, list[Path]] = field(default_factory=dict)
    returned_at: dict[str, list[Path]] = field(default_factory=dict)
    """Where the inputs and outputs of each call are among its parameters and in its result."""
    values: dict[TensorIdentity, Tensor] = field(default_factory=dict)
    alive: list[Tensor] = field(default_factory=list)
    """Keeps tensors from being freed, so that no two have the same identity."""
    failed: set[str] = field(default_factory=set)
    """The calls that ended in an error."""

    def enter(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        self.calls[call.name] = call
        self.given_at[call.name] = places
        self.events.append(("enter", call.name))
        self.inputs[call.name] = [self._kept(tensor) for tensor in tensors]
        return tensors

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        self.events.append(("exit", call.name))
        self.returned_at[call.name] = places
        self.outputs[call.name] = [self._kept(tensor) for tensor in tensors]
        return tensors

    def raised(self, call: WatchedCall) -> None:
        self.failed.add(call.name)
        self.leave(call, [], [])

    def _kept(self, tensor: Tensor) -> TensorIdentity:
        identity = identity_of(tensor)
        self.alive.append(tensor)
        if identity not in self.values:
            self.values[identity] = tensor.detach().clone()
        return identity


@dataclass
class GoldenPlan(Plan):
    """The calls that are compared, with the golden value of each of their keys, by its own key or an alias."""

    values: dict[str, Tensor] = field(default_factory=dict)
    given_at: dict[str, list[Path]] = field(default_factory=dict)
    returned_at: dict[str, list[Path]] = field(default_factory=dict)

    def value(self, key: str) -> Tensor:
        return self.values[self.resolve(key)]


def make_plan(
    golden: Recording,
    compared: Callable[[str], bool],
    *,
    with_inputs: Callable[[str], bool] = lambda _: True,
    source: Callable[[WatchedCall], str | None] = lambda call: call.source,
) -> GoldenPlan:
    """The plan of the calls that `compared` picks; a call's parent is the nearest one that is picked, too."""
    root = next(iter(golden.calls))
    plan = GoldenPlan(root, given_at=golden.given_at, returned_at=golden.returned_at)
    owner: dict[TensorIdentity, str] = {}

    def keyed(keys: list[str], identities: list[TensorIdentity]) -> list[str]:
        for key, identity in zip(keys, identities, strict=True):
            first = owner.setdefault(identity, key)
            if first == key:
                plan.values[key] = golden.values[identity]
            else:
                plan.aliases[key] = first
        return keys

    inputs: dict[str, list[str]] = {}
    for kind, name in golden.events:
        if not compared(name):
            continue
        plan.events.append((kind, name))
        call = golden.calls[name]
        if kind == "enter":
            identities = golden.inputs[name] if with_inputs(name) else []
            inputs[name] = keyed(input_keys(name, len(identities)), identities)
        else:
            outputs = keyed(output_keys(name, len(golden.outputs[name])), golden.outputs[name])
            parent = call.parent
            while parent is not None and not compared(parent):
                parent = golden.calls[parent].parent
            plan.calls[name] = Call(name, call.path, call.type, inputs[name], outputs, source(call), parent)
    return plan
