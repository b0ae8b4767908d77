"""The reference in the dtypes of a candidate that has fewer digits, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torchport.candidates import leaves, precision
from torchport.candidates.golden import GoldenPlan
from torchport.candidates.leaves import Path
from torchport.candidates.lockstep import at_places
from torchport.candidates.pair import ModelPair
from torchport.candidates.probing import Probe, WatchedCall
from torchport.candidates.watched_model import WatchedModel
from torchport.errors import TorchportError, UsageError


@contextmanager
def in_candidates_dtypes(pair: ModelPair, plan: GoldenPlan) -> Iterator[WatchedModel]:
    """The reference as it is or, if weights of the candidate have fewer digits, with such weights.

    A layer that holds such weights is given, and returns, tensors of the dtypes that the candidate's layer has.
    """
    weights = pair.coarser
    if not weights:
        yield pair.reference
        return
    inputs = _with_dtypes_of(pair.candidate.inputs, pair.reference.inputs)
    around = partial(CandidateBorders, plan, _paths_with(pair.reference, weights))
    with precision.in_dtypes(weights):
        yield replace(pair.reference, inputs=inputs, around=around)


@contextmanager
def must_run_in(name: str) -> Iterator[None]:
    """Within, the reference is run in the candidate's dtypes, without which there is no measure."""
    try:
        yield
    except TorchportError as error:
        message = f"the reference does not run in {name}, as the candidate does: {error.message}"
        raise UsageError("TP0801", message, fix="give rtol or atol") from error


def _with_dtypes_of(others: Any, inputs: Any) -> Any:
    dtypes = {path: tensor.dtype for path, tensor in leaves.tensors(others)}
    cast = {
        path: tensor.to(dtypes[path]) for path, tensor in leaves.tensors(inputs) if tensor.is_floating_point()
    }
    return leaves.put_into(leaves.copied(inputs, lambda tensor: tensor), cast)


def _paths_with(reference: WatchedModel, weights: Mapping[Tensor, torch.dtype]) -> frozenset[str]:
    """The modules that hold one of these weights, themselves or inside."""
    return frozenset(
        path
        for module, path in reference.names.items()
        if any(tensor in weights for tensor in (*module.parameters(), *module.buffers()))
    )


@dataclass
class CandidateBorders:
    """A probe around another: the tensors at the borders of some modules have the dtypes of the candidate's."""

    plan: GoldenPlan
    paths: frozenset[str]
    probe: Probe

    def enter(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        return self.probe.enter(call, self._given(call, tensors, places), places)

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        return self.probe.leave(call, self._returned(call, tensors, places), places)

    def enter_again(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        return self.probe.enter_again(call, self._given(call, tensors, places), places)

    def leave_again(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        return self.probe.leave_again(call, self._returned(call, tensors, places), places)

    def raised(self, call: WatchedCall) -> None:
        self.probe.raised(call)

    def raised_again(self, call: WatchedCall) -> None:
        self.probe.raised_again(call)

    def _given(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        if not self._is_meant(call):
            return tensors
        keys = self.plan.calls[call.name].inputs
        return self._cast(tensors, at_places(keys, self.plan.places["reference"].given[call.name], places))

    def _returned(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        if not self._is_meant(call):
            return tensors
        keys = self.plan.calls[call.name].outputs
        return self._cast(tensors, at_places(keys, self.plan.places["reference"].returned[call.name], places))

    def _is_meant(self, call: WatchedCall) -> bool:
        return call.path in self.paths and call.name in self.plan.calls

    def _cast(self, tensors: list[Tensor], keyed: list[tuple[str, int]]) -> list[Tensor]:
        result = list(tensors)
        for key, index in keyed:
            dtype = self.plan.dtypes.get(key)
            if dtype is not None and dtype.is_floating_point and tensors[index].is_floating_point():
                result[index] = tensors[index].to(dtype)
        return result
