"""The reference in a class of arithmetic, from golden inputs: what a candidate of that class may compute."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from torchport.arithmetic.classes import Arithmetic
from torchport.arithmetic.emulation import Emulated
from torchport.candidates import precision
from torchport.candidates.coarser import in_candidates_dtypes
from torchport.candidates.golden import GoldenPlan
from torchport.candidates.leaves import Path
from torchport.candidates.lockstep import LockStep
from torchport.candidates.pair import ModelPair
from torchport.candidates.probing import NotRepeated, WatchedCall
from torchport.candidates.watched_model import WatchedModel


@dataclass
class _Within(NotRepeated):
    """A probe that turns the emulation on in some calls. A call that is not compared is a part of the one it is in."""

    probe: LockStep
    mode: Emulated
    calls: Collection[str]
    stack: list[bool] = field(default_factory=lambda: [False])

    def enter(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        self.mode.is_on = False
        given = self.probe.enter(call, tensors, places)
        is_compared = call.name in self.probe.plan.calls
        self.stack.append(call.name in self.calls if is_compared else self.stack[-1])
        self.mode.is_on = self.stack[-1]
        return self._rounded(given)

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        self.mode.is_on = False
        returned = self.probe.leave(call, tensors, places)
        self.raised(call)
        return self._rounded(returned)

    def _rounded(self, tensors: list[Tensor]) -> list[Tensor]:
        """Golden values as results of the class: a candidate is handed them in the dtype that it computes in."""
        change = self.mode.arithmetic.results
        if change is None:
            return tensors
        return [change(tensor) if tensor.is_floating_point() else tensor for tensor in tensors]

    def raised(self, call: WatchedCall) -> None:
        self.stack.pop()
        self.mode.is_on = self.stack[-1]


@contextmanager
def run_again(pair: ModelPair, plan: GoldenPlan, arithmetic: Arithmetic | None) -> Iterator[WatchedModel]:
    """The reference in a class of arithmetic and in the candidate's dtypes; without a class, in float64."""
    if arithmetic is None:
        with precision.in_float64(pair.reference.model):
            yield pair.reference.in_dtype(torch.float64)
    else:
        with in_candidates_dtypes(pair, plan) as reference, Emulated(arithmetic):
            yield reference


def emulated_forward(
    pair: ModelPair, plan: GoldenPlan, arithmetic: Arithmetic, calls: Collection[str]
) -> Mapping[str, Tensor]:
    """By key, what some calls of the reference compute; TorchportError if it cannot be run so."""
    probe, mode = LockStep(plan, "reference"), Emulated(arithmetic)
    mode.is_on = False
    with in_candidates_dtypes(pair, plan) as reference, torch.no_grad(), mode:
        reference.run(_Within(probe, mode, calls))
    return probe.written
