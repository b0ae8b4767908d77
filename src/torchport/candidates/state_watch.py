"""The state that a run of a model writes to: its buffers and parameters, and the inputs that it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from torchport.candidates.identity import TensorIdentity, identity_of
from torchport.candidates.leaves import Path
from torchport.candidates.paths import buffers_of, parameters_of
from torchport.candidates.probing import WatchedCall, inputs_of
from torchport.capture.state import by_size, is_training

INPUT = "input "
"""What the name of an input begins with, which no buffer's does."""


@dataclass
class StateWatch:
    """A witness of one run, which notes the state that is written to and its values afterwards."""

    models: tuple[nn.Module, ...]
    after: Mapping[str, Tensor] = field(default_factory=dict)
    """What was written, by name."""
    copies: dict[str, Tensor] = field(default_factory=dict)
    identities: dict[str, TensorIdentity] = field(default_factory=dict)
    before: dict[str, Tensor] = field(default_factory=dict)
    """The state of the models and the inputs, as tensors that the run may write to."""

    def entered(
        self, call: WatchedCall, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if call.parent is not None:
            return
        found, places = inputs_of(module, args, kwargs)
        inputs = {INPUT + _dotted(place): tensor for place, (_, tensor) in zip(places, found, strict=True)}
        self.before = {**state_of(*self.models), **inputs}
        small, _ = by_size(list(self.before.values()))
        copied = {id(tensor) for tensor in small}
        for name, tensor in self.before.items():
            if id(tensor) in copied:
                self.copies[name] = tensor.detach().clone()
            else:
                self.identities[name] = identity_of(tensor)

    def left(self, call: WatchedCall, module: nn.Module, result: Any) -> None:
        if call.parent is None:
            now = {**self.before, **state_of(*self.models)}
            written = [name for name in self.before if self._is_written(name, now[name])]
            self.after = {name: now[name].detach().clone() for name in written}

    def _is_written(self, name: str, tensor: Tensor) -> bool:
        if name in self.identities:
            return identity_of(tensor) != self.identities[name]
        before = self.copies[name]
        if before.shape != tensor.shape or before.dtype != tensor.dtype:
            return True
        return not bool(((before == tensor) | ((before != before) & (tensor != tensor))).all())

    def value(self, name: str) -> Tensor | None:
        """What a part of the state is after the run, or None if there is none of that name."""
        return self.after.get(name, self.before.get(name))


def state_of(*models: nn.Module) -> dict[str, Tensor]:
    """The state that a forward pass may write to, by name: buffers and, in training mode, parameters."""
    found: dict[str, Tensor] = {}
    for model in models:
        found |= buffers_of(model)
        if is_training(model):
            found |= parameters_of(model)
    return found


def _dotted(place: Path) -> str:
    return ".".join(str(part) for part in place)
