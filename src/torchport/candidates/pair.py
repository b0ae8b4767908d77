"""A reference and a candidate, ready to run: which module stands for which, and the inputs of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from torchport.candidates import leaves, precision, probing
from torchport.candidates.functions import FunctionModule
from torchport.candidates.left_out import BY_MAP, NOT_COMPARED, ONLY_OUTPUTS
from torchport.candidates.names import Map, renamed
from torchport.candidates.paths import buffers_of, modules_of, own_parameters, parameters_of
from torchport.candidates.watched_model import WatchedModel
from torchport.capture.module_names import must_tell_calls_apart
from torchport.capture.random_numbers import random_numbers_kept
from torchport.capture.source import definition
from torchport.capture.state import alone, state_kept
from torchport.errors import CaptureError, UsageError


@dataclass(frozen=True)
class ModelPair:
    reference: WatchedModel
    candidate: WatchedModel
    partner: dict[str, str | None]
    """For each path of the reference, of a module or a parameter, that of the candidate."""
    absent: dict[str, str]
    """Why a module of the reference is not compared."""
    groups: dict[str, str]
    """For each path that is compared the first path of those that one module of the candidate stands for."""
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

    def with_calls(self, known_as: dict[str, tuple[str, str]]) -> ModelPair:
        """The same, now that it is known which call of the candidate stands for which of the reference's."""
        return replace(self, candidate=replace(self.candidate, known_as=known_as))

    def partner_of(self, name: str) -> str | None:
        """What the candidate calls a parameter or a buffer of the reference; None if it is left out."""
        if name in self.partner:
            return self.partner[name]
        path, _, leaf = name.rpartition(".")
        owner = self.partner.get(path)
        return None if owner is None else f"{owner}.{leaf}".removeprefix(".")

    @cached_property
    def coarser(self) -> dict[Tensor, torch.dtype]:
        """The reference's weights whose partners in the candidate have fewer digits, with the dtypes of these.

        A weight without a partner has that of all of the candidate's, if they have one in common.
        """
        usual = only_dtype(self.candidate.model)
        known = {**own_parameters(self.candidate.model), **buffers_of(self.candidate.model)}
        found = {}
        for name, own in {**parameters_of(self.reference.model), **buffers_of(self.reference.model)}.items():
            partner = known.get(self.partner_of(name) or "")
            dtype = usual if partner is None else partner.dtype
            if dtype not in (None, own.dtype) and precision.is_coarser(dtype, than=own.dtype):
                found[own] = dtype
        return found

    @property
    def precision(self) -> str | None:
        """What to call the dtypes of a candidate that is coarser than the reference."""
        if not self.coarser:
            return None
        dtype = only_dtype(self.candidate.model)
        return "the candidate's dtypes" if dtype is None else str(dtype).removeprefix("torch.")


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
    must_tell_calls_apart(reference)
    given = ((args,) if isinstance(args, Tensor) else tuple(args), dict(kwargs or {}))
    leaves.must_be_plain(leaves.tensors(given), f"{type(reference).__name__} is given", None)
    model = _as_module(candidate)
    root = type(reference).__name__
    taken = {path for path, _ in reference.named_modules()}
    while root in taken:
        root += "_"
    names = probing.by_path(reference)
    own = [*modules_of(reference), *parameters_of(reference)]
    known = [*modules_of(model), *own_parameters(model)]
    partner = renamed(own, wish, known)
    found, absent, groups = _matched(model, _all_paths(reference, names), partner, layers)
    sides = (
        WatchedModel("reference", reference, _moved(given, None, reference), names, root),
        WatchedModel("candidate", model, _moved(given, reference, model), found, root),
    )
    closed = {
        path: f"its parts are not compared: in the reference it is {kind}"
        for module, path in names.items()
        if (kind := probing.closed_kind(module)) is not None
    }
    return ModelPair(*sides, partner, absent, groups, closed)


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


def _all_paths(reference: nn.Module, names: Mapping[nn.Module, str]) -> dict[str, list[str]]:
    """For the path of each module that is watched, all paths at which it is found."""
    found: dict[str, list[str]] = {path: [path] for path in names.values()}
    for path, module in modules_of(reference).items():
        if module in names and path != names[module]:
            found[names[module]].append(path)
    return found


def _matched(
    model: nn.Module, paths: Mapping[str, list[str]], partner: Mapping[str, str | None], layers: bool
) -> tuple[dict[nn.Module, str], dict[str, str], dict[str, str]]:
    """The candidate's modules with the reference's paths, why others have none, and which paths share a module."""
    everything = modules_of(model)
    visible = set(probing.by_path(model))
    kind = "a function" if isinstance(model, FunctionModule) else probing.closed_kind(model)
    found: dict[nn.Module, str] = {model: ""}
    absent, groups = {}, {"": ""}
    for path, every in paths.items():
        if path == "":
            continue
        targets = [target for other in every if (target := partner[other]) is not None]
        modules = [everything[target] for target in targets if target in everything]
        hidden = [module for module in modules if module not in visible]
        if not targets:
            absent[path] = BY_MAP
        elif not layers:
            absent[path] = ONLY_OUTPUTS
        elif kind is not None:
            absent[path] = f"the candidate is {kind}, and what is inside it is not seen"
        elif not modules:
            absent[path] = "the candidate has no such module"
        elif hidden:
            absent[path] = f"it is inside {_closed_around(model, hidden[0])} code"
        elif model in modules:
            absent[path] = "in the candidate it is the same module as the model"
        else:
            _join(groups, path, [found[module] for module in modules if module in found])
            found |= {module: found.get(module, path) for module in modules}
    return found, {path: NOT_COMPARED + why for path, why in absent.items()}, groups


def _join(groups: dict[str, str], path: str, others: list[str]) -> None:
    """Puts a path into the group of others, whose groups become one."""
    groups[path] = path
    for other in others:
        joined = groups[other]
        groups.update({one: joined for one, group in groups.items() if group == groups[path]})


def _closed_around(model: nn.Module, module: nn.Module) -> str:
    """The kind of code that a module is inside of, and cannot be seen for."""
    return next(
        kind for one in model.modules() if module in one.modules() and (kind := probing.closed_kind(one))
    )


def _moved(given: tuple[Any, ...], reference: nn.Module | None, model: nn.Module) -> tuple[Any, ...]:
    """The inputs on the model's device and, where it has another dtype than the reference, in that dtype."""
    parameters = list(model.parameters())
    tensors = [*parameters, *model.buffers()]
    if any(is_lazy(tensor) or tensor.is_meta for tensor in tensors):
        message = f"{type(model).__name__} has lazy layers or is on the meta device, so it has no values"
        raise CaptureError("TP0201", message, fix="give it its weights first")
    devices = {tensor.device for tensor in tensors}
    device = next(iter(devices)) if len(devices) == 1 else None
    old, new = (None, None) if reference is None else (only_dtype(reference), _only_dtype(parameters))

    def move(tensor: Tensor) -> Tensor:
        dtype = new if new is not None and tensor.dtype == old else tensor.dtype
        return tensor.detach().to(device or tensor.device, dtype)

    moved: tuple[Any, ...] = leaves.copied(given, move)
    return moved


def only_dtype(model: nn.Module) -> torch.dtype | None:
    return _only_dtype(model.parameters())


def _only_dtype(parameters: Iterable[Tensor]) -> torch.dtype | None:
    floats = {parameter.dtype for parameter in parameters if parameter.is_floating_point()}
    return next(iter(floats)) if len(floats) == 1 else None


@contextmanager
def undisturbed(pair: ModelPair) -> Iterator[None]:
    """Afterwards both models and the random numbers are as before. The modes of the models are kept.

    Inference mode and the cache of autocast, which are the thread's own, are off within.
    """
    with ExitStack() as stack:
        stack.enter_context(alone())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(_without_cached_casts())
        stack.enter_context(random_numbers_kept(*pair.models))
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
