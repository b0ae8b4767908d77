"""A suspect of two PyTorch models: its call in the reference as a slice, and the candidate's call beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from torchport.candidates.coarser import in_candidates_dtypes
from torchport.candidates.golden import GoldenPlan
from torchport.candidates.isolation import IsolatedCall, isolate
from torchport.candidates.pair import ModelPair, undisturbed
from torchport.candidates.traced_call import TracedCall, WeightNaming
from torchport.candidates.weight_names import NamedWeights, weights_of_candidate, weights_of_reference
from torchport.errors import TorchportError
from torchport.explain.alignment import Alignment
from torchport.explain.drill import unexplained
from torchport.explain.noted_run import CANNOT_COMPUTE
from torchport.explain.slice import Slice
from torchport.explain.suspect import Suspect, as_capture

_SAME = 0.05
"""The share of an error that may be missing where two errors are called the same."""
_OWN_NAMES = "candidate."

Trace = Callable[[IsolatedCall, WeightNaming], TracedCall]


@dataclass(frozen=True)
class RewrittenSuspect(Suspect):
    """The slice is the reference's. The candidate's operations are in the alignment, if they can be seen."""

    call: str = ""
    alignment: Alignment | None = None

    @property
    def other_weights(self) -> Mapping[str, Tensor]:
        return {} if self.alignment is None else self.alignment.candidate.weights


@dataclass(frozen=True)
class ComparedModels:
    """Two models and the calls that were compared, so that one of these can be run again by itself."""

    pair: ModelPair
    plan: GoldenPlan
    """The forward pass of the calls that are compared."""
    without_outputs: set[str] = field(default_factory=set)
    """The candidate's calls that lack outputs, in the place of which golden ones cannot be put."""

    @cached_property
    def known(self) -> NamedWeights:
        return weights_of_reference(self.pair)

    @cached_property
    def stored(self) -> NamedWeights:
        return weights_of_candidate(self.pair)

    def traced_reference(self, call: str, trace: Trace, *, backward: bool = False) -> TracedCall:
        """The reference's call, in the dtypes of the candidate if these are coarser."""
        dtypes = in_candidates_dtypes(self.pair, self.plan)
        with undisturbed(self.pair), torch.set_grad_enabled(backward), dtypes as reference:
            return trace(isolate(reference, self.plan, call, set()), WeightNaming(self.known))

    def traced_candidate(self, call: str, trace: Trace, *, backward: bool = False) -> TracedCall | None:
        """The candidate's call; None if its operations cannot be seen."""
        try:
            with undisturbed(self.pair), torch.set_grad_enabled(backward):
                found = isolate(self.pair.candidate, self.plan, call, self.without_outputs)
                return trace(found, WeightNaming(self.stored, _OWN_NAMES))
        except TorchportError:
            return None

    def suspect(
        self,
        call: str,
        key: str,
        reference: TracedCall,
        candidate: TracedCall | None,
        golden: Sequence[Tensor],
        observed: Mapping[str, Tensor],
    ) -> RewrittenSuspect:
        """The suspect, in which `observed` is what the candidate computed; what is not there, its graph computes."""
        inputs = list(reference.inputs.values())
        capture = as_capture(reference.graph, reference.weights, inputs, list(golden))
        part = Slice(reference.graph, tuple(reference.inputs), reference.outputs, reference.full_names)
        alignment = None if candidate is None else aligned(reference, candidate)
        seen = dict(observed)
        if alignment is not None and candidate is not None:
            refs = dict(zip(candidate.outputs, candidate.graph.root.outputs, strict=True))
            seen = {other: alignment.computed[ref] for other, ref in refs.items()} | seen
            expected = dict(zip(reference.outputs, golden, strict=True))[key]
            if key in seen and not _is_same(expected, seen[key], alignment.computed[refs[key]]):
                alignment = None
        stored = {
            name: _as(self.stored.tensors[full].detach().cpu().clone(), reference.weights[name])
            for name, full in reference.full_names.items()
            if full in self.stored.tensors
        }
        return RewrittenSuspect(part, capture, seen, stored, key, call, alignment)


def aligned(reference: TracedCall, candidate: TracedCall) -> Alignment | None:
    """Both graphs on the same inputs; None if the candidate's cannot run on these."""
    inputs = list(reference.inputs.values())
    both = zip(inputs, candidate.inputs.values(), strict=True)
    if any(own.dtype != other.dtype for own, other in both):
        return None
    alignment = Alignment(reference.runnable, replace(candidate.runnable, inputs=inputs))
    try:
        return alignment if alignment.computed is not None else None
    except CANNOT_COMPUTE:
        return None


def _is_same(golden: Tensor, observed: Tensor, computed: Tensor) -> bool:
    """Whether the candidate's graph computes what the candidate computed."""
    if observed.shape == computed.shape and torch.equal(observed, computed):
        return True
    return unexplained(golden, observed, computed) < _SAME


def _as(tensor: Tensor, recorded: Tensor) -> Tensor:
    """The tensor in the dtype of the recorded one, if it can be compared with that."""
    return tensor.to(recorded.dtype) if tensor.shape == recorded.shape else tensor
