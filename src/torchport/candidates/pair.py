"""A reference and a candidate, ready to run: which module stands for which, and the inputs of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from torchport.candidates import leaves, precision, probing
from torchport.candidates.cuts import Flow
from torchport.candidates.functions import FunctionModule
from torchport.candidates.golden import Recording
from torchport.candidates.names import Map, renamed
from torchport.candidates.paths import modules_of, own_parameters, parameters_of
from torchport.candidates.watched_model import WatchedModel
from torchport.capture.source import definition
from torchport.capture.state import alone, state_kept
from torchport.errors import CaptureError, UsageError

NOT_COMPARED = "not compared: "


@dataclass(frozen=True)
class ModelPair:
    reference: WatchedModel
    candidate: WatchedModel
    partner: dict[str, str | None]
    """For each path of the reference, of a module or a parameter, that of the candidate."""
    absent: dict[str, str]
    """Why a module of the reference is not compared."""
    closed: dict[str, str]
    """By path, why nothing inside a module of the reference is compared, although the module is."""

    @property
    def models(self) -> tuple[nn.Module, ...]:
        """Both models, and the modules that a function works with."""
        return (self.reference.model, self.candidate.model, *self.candidate.owners)

    @property
    def source(self) -> str | None:
        """Where the candidate is defined."""
        model = self.candidate.model
        if isinstance(model, FunctionModule):
            return definition(model.function)
        return definition(type(getattr(model, "_orig_mod", model)))

    def why_not(self, golden: Recording | Flow, candidate: Recording | Flow) -> dict[str, str]:
        """Why calls are not compared, by their names, now that both models were run."""
        ours, theirs = (Counter(call.path for call in side.calls.values()) for side in (golden, candidate))
        found = {}
        for name, call in golden.calls.items():
            why = self.absent.get(call.path) or _other_count(theirs[call.path], ours[call.path])
            why = why or _error(name in golden.failed, name in candidate.failed)
            if why is not None:
                found[name] = NOT_COMPARED + why
        return found

    def partner_of(self, name: str) -> str | None:
        """What the candidate calls a parameter or a buffer of the reference; None if it is left out."""
        if name in self.partner:
            return self.partner[name]
        path, _, leaf = name.rpartition(".")
        owner = self.partner.get(path)
        return None if owner is None else f"{owner}.{leaf}".removeprefix(".")

    @property
    def coarser(self) -> torch.dtype | None:
        """The dtype of a candidate that has fewer digits than the reference."""
        own, other = (
            precision.coarsest(side.model.parameters()) for side in (self.reference, self.candidate)
        )
        return other if own and other and precision.is_coarser(other, own) else None


def pair_up(
    reference: nn.Module,
    candidate: Any,
    args: tuple[Any, ...] | list[Any] | Tensor,
    kwargs: Mapping[str, Any] | None,
    *,
    layers: bool,
    wish: Map | None,
) -> ModelPair:
    """Finds the candidate's modules by the reference's paths; a function is one module without parts."""
    _must_be_a_reference(reference)
    given = ((args,) if isinstance(args, Tensor) else tuple(args), dict(kwargs or {}))
    leaves.must_be_plain(leaves.tensors(given), f"{type(reference).__name__} is given", None)
    model = _as_module(candidate)
    root = type(reference).__name__
    taken = {path for path, _ in reference.named_modules()}
    while root in taken:
        root += "_"
    names = probing.by_path(reference)
    own = [*names.values(), *parameters_of(reference)]
    known = [*modules_of(model), *own_parameters(model)]
    partner = renamed(own, wish, known)
    found, absent = _matched(model, names.values(), partner, layers)
    sides = (
        WatchedModel("reference", reference, _moved(given, None, reference), names, root),
        WatchedModel("candidate", model, _moved(given, reference, model), found, root),
    )
    closed = {
        path: f"its parts are not compared: in the reference it is {kind}"
        for module, path in names.items()
        if (kind := probing.closed_kind(module)) is not None
    }
    return ModelPair(*sides, partner, absent, closed)


def _must_be_a_reference(reference: Any) -> None:
    if not isinstance(reference, nn.Module):
        message = f"the reference is a {type(reference).__name__}, not an nn.Module"
        raise UsageError("TP0801", message, fix="give the module that is taken for right")
    if probing.is_closed(reference):
        kind = probing.closed_kind(reference)
        message = f"the reference is {kind}, and its layers are not seen"
        raise UsageError("TP0801", message, fix=f"give the module from which it was {kind}")


def _as_module(candidate: Any) -> nn.Module:
    if isinstance(candidate, torch.export.ExportedProgram):
        candidate = candidate.module()
    if isinstance(candidate, nn.Module):
        return candidate
    if not callable(candidate):
        message = f"the candidate is a {type(candidate).__name__}, which cannot be called"
        raise UsageError("TP0801", message, fix="give an nn.Module, a function or a torchport.Port")
    return FunctionModule(candidate)


def _matched(
    model: nn.Module, paths: Any, partner: Mapping[str, str | None], layers: bool
) -> tuple[dict[nn.Module, str], dict[str, str]]:
    """The candidate's modules with the reference's paths, and why others have none."""
    everything = modules_of(model)
    visible = set(probing.by_path(model))
    kind = "a function" if isinstance(model, FunctionModule) else probing.closed_kind(model)
    found: dict[nn.Module, str] = {model: ""}
    absent = {}
    for path in paths:
        if path == "":
            continue
        target = partner[path]
        module = None if target is None else everything.get(target)
        if target is None:
            absent[path] = "map= leaves it out"
        elif not layers:
            absent[path] = "only the outputs are compared"
        elif kind is not None:
            absent[path] = f"the candidate is {kind}, and what is inside it is not seen"
        elif module is None:
            absent[path] = "the candidate has no such module"
        elif module not in visible:
            absent[path] = f"it is inside {_closed_around(model, module)} code"
        elif module in found:
            absent[path] = f"in the candidate it is the same module as {found[module] or 'the model'}"
        else:
            found[module] = path
    return found, absent


def _closed_around(model: nn.Module, module: nn.Module) -> str:
    """The kind of code that a module is inside of, and cannot be seen for."""
    return next(
        kind for one in model.modules() if module in one.modules() and (kind := probing.closed_kind(one))
    )


def _other_count(theirs: int, ours: int) -> str | None:
    if theirs == ours:
        return None
    times = f"{theirs} times where the reference calls it {ours} times"
    return f"the candidate calls it {times}" if theirs else "the candidate never calls it"


def _error(ours: bool, theirs: bool) -> str | None:
    if not (ours or theirs):
        return None
    side = "" if ours and theirs else "in the reference " if ours else "in the candidate "
    return f"{side}it ends in an error, which is caught"


def _moved(given: tuple[Any, ...], reference: nn.Module | None, model: nn.Module) -> tuple[Any, ...]:
    """The inputs on the model's device and, where it has another dtype than the reference, in that dtype."""
    tensors = [*model.parameters(), *model.buffers()]
    if any(is_lazy(tensor) or tensor.is_meta for tensor in tensors):
        message = f"{type(model).__name__} has lazy layers or is on the meta device, so it has no values"
        raise CaptureError("TP0201", message, fix="give it its weights first")
    devices = {tensor.device for tensor in tensors}
    device = next(iter(devices)) if len(devices) == 1 else None
    old, new = (None, None) if reference is None else (_only_dtype(reference), _only_dtype(model))

    def move(tensor: Tensor) -> Tensor:
        dtype = new if new is not None and tensor.dtype == old else tensor.dtype
        return tensor.detach().to(device or tensor.device, dtype)

    moved: tuple[Any, ...] = leaves.copied(given, move)
    return moved


def _only_dtype(model: nn.Module) -> torch.dtype | None:
    floats = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    return next(iter(floats)) if len(floats) == 1 else None


@contextmanager
def undisturbed(pair: ModelPair) -> Iterator[None]:
    """Afterwards both models and the random numbers are as before. The modes of the models are kept.

    Inference mode and the cache of autocast, which are the thread's own, are off within.
    """
    devices = {p.device.index for model in pair.models for p in model.parameters() if p.is_cuda}
    with ExitStack() as stack:
        stack.enter_context(alone())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(_without_cached_casts())
        stack.enter_context(torch.random.fork_rng(devices=list(devices)))
        for model in pair.models:
            stack.enter_context(state_kept(model))
        yield


@contextmanager
def _without_cached_casts() -> Iterator[None]:
    """Autocast casts a weight anew in every run: one that was cast in another run has no gradient in this one."""
    before = torch.is_autocast_cache_enabled()
    try:
        torch.set_autocast_cache_enabled(False)
        torch.clear_autocast_cache()
        yield
    finally:
        torch.set_autocast_cache_enabled(before)
