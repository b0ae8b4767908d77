"""What a fault does, computed with torch: the faulty graph runs in lock-step, each value set against the golden one.

So it is known before the port runs that a fault is one, how large it is beside the noise, and which call shows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from torchport.capture.graph import Graph
from torchport.capture.interpret import Interpreter, Watch
from torchport.capture.plan import Plan, make_plan
from torchport.capture.recorder import Capture

from .bins import floors_moved

NOISE = 8.0
"""Floors that count as noise: a fault must move elements of some magnitude by more."""


@dataclass(frozen=True)
class Effect:
    """How many noise floors the fault moves the first value that it moves, and whose value that is."""

    floors: float
    owner: str | None

    @property
    def is_real(self) -> bool:
        return self.floors > NOISE


NOTHING = Effect(0.0, None)


def effect_of(capture: Capture, graph: Graph, weights: Mapping[str, torch.Tensor]) -> Effect:
    """The effect of computing with this graph and these weights instead of those that were captured."""
    plan = make_plan(graph)
    return effect_while(
        capture, plan, lambda watch, inputs: Interpreter(graph, weights, plan, watch).run(inputs)
    )


def effect_while(
    capture: Capture, plan: Plan, run: Callable[[Watch, list[torch.Tensor]], list[torch.Tensor]]
) -> Effect:
    """The effect of whatever runs the model on its inputs, and shows each value of a call."""
    owners = _owners(plan)
    found: list[Effect] = []

    def watch(key: str, value: torch.Tensor) -> torch.Tensor:
        """In lock-step: notes how far the value is from the golden one, and goes on with that."""
        golden = capture.golden[capture.plan.resolve(key)]
        floors = _floors(golden, value, capture.truth.get(key))
        if floors > NOISE:
            found.append(Effect(floors, owners[key]))
        return golden

    inputs = [capture.golden[key] for key in capture.plan.calls[plan.root].inputs]
    try:
        run(watch, inputs)
    except (RuntimeError, IndexError, ValueError):
        # It does not even run: shapes do not fit. What ran before was right, or is in `found`.
        return found[0] if found else Effect(math.inf, None)
    return found[0] if found else NOTHING


def _floors(golden: torch.Tensor, value: torch.Tensor, residual: torch.Tensor | None) -> float:
    """The difference as a multiple of eager PyTorch's own distance from the float64 truth, where it is largest."""
    if golden.shape != value.shape or golden.dtype != value.dtype:
        return math.inf
    if torch.equal(golden, value):
        return 0.0
    if not golden.is_floating_point():
        return math.inf
    special = ~(golden.isfinite() & value.isfinite())
    if not torch.allclose(golden[special], value[special], rtol=0, atol=0, equal_nan=True):
        return math.inf
    return floors_moved(golden, value, residual)


def _owners(plan: Plan) -> dict[str, str]:
    """The call that computes the value of each key: its own, or for an input the caller."""
    owners: dict[str, str] = {}
    for call in plan.calls.values():
        owners |= dict.fromkeys(call.outputs, call.name)
        owners |= dict.fromkeys(call.inputs, call.parent or call.name)
    return owners


def first_call(plan: Plan, modules: set[str]) -> str:
    """The first call, in the order of execution, of one of these modules."""
    entered = (name for kind, name in plan.events if kind == "enter")
    return next(name for name in entered if plan.calls[name].module in modules)
