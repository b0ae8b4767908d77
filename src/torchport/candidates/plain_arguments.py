"""Arguments of calls that are no tensors, such as a scale or no mask: what is given otherwise than in the reference.

No value of a trace shows them. They are chosen by the caller, so that a call that differs for them is not at fault.
"""

from __future__ import annotations

import inspect
import math
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor, nn

from torchport.candidates.call_pairing import CallPairs
from torchport.candidates.probing import BY_POSITION, WatchedCall, forward_parameters

_PLAIN = (type(None), bool, int, float, complex, str)
_SAME = 1e-12
"""The distance of two numbers, as a share of their size, below which they are the same but for how they are written."""


class _Given(NamedTuple):
    """By the name of forward's parameter: plain values, and `torch.Tensor` for a tensor."""

    explicit: Mapping[str, Any]
    parameters: tuple[inspect.Parameter, ...]

    @property
    def defaults(self) -> dict[str, Any]:
        return _plain({one.name: one.default for one in self.parameters})

    def has(self, name: str) -> bool:
        return name in self.explicit or name in self.defaults

    def value(self, name: str) -> Any:
        return self.explicit[name] if name in self.explicit else self.defaults[name]


@dataclass
class PlainArguments:
    """A witness that keeps the plain arguments of each call."""

    caller: dict[str, str | None] = field(default_factory=dict)
    given: dict[str, _Given] = field(default_factory=dict)

    def entered(
        self, call: WatchedCall, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        parameters = forward_parameters(module)
        by_position = [one.name for one in parameters if one.kind in BY_POSITION]
        explicit = {**dict(zip(by_position, args, strict=False)), **kwargs}
        self.caller[call.name] = call.parent
        self.given[call.name] = _Given(_plain(explicit), parameters)

    def left(self, call: WatchedCall, module: nn.Module, result: Any) -> None:
        pass


def given_otherwise(pairs: CallPairs, golden: PlainArguments, candidate: PlainArguments) -> dict[str, str]:
    """By the name of a call, in words, which plain arguments are not those of the reference's call."""
    found: dict[str, str] = {}
    for name, pair in pairs.calls.items():
        caller, ours, theirs = golden.caller[name], golden.given[name], candidate.given[pair.candidate]
        differing = [] if caller is None else list(_differing(ours, theirs))
        if differing:
            got = " and ".join(f"{one}={_shown(theirs.value(one))}" for one in differing)
            expected = " and ".join(_shown(ours.value(one)) for one in differing)
            found[name] = f"{caller} gives it {got} where the reference gives {expected}"
    return found


def _differing(ours: _Given, theirs: _Given) -> Iterator[str]:
    """The parameters that both have, of which at least one side is given something that the other is not."""
    for name in {**ours.explicit, **theirs.explicit}:
        if ours.has(name) and theirs.has(name) and not _is_same(ours.value(name), theirs.value(name)):
            yield name


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_SAME) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


def _shown(value: Any) -> str:
    return "a tensor" if value is Tensor else reprlib.repr(value)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: Tensor if isinstance(value, Tensor) else value
        for name, value in values.items()
        if isinstance(value, (Tensor, *_PLAIN))
    }
