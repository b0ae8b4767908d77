"""A reference and a candidate, ready to run: which module stands for which, and the inputs of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from torchport.candidates import leaves, precision, probing
from torchport.candidates.names import Map, renamed
from torchport.capture.source import definition, user_line
from torchport.capture.state import state_kept
from torchport.errors import CaptureError, RunError, TorchportError, UsageError

NOT_COMPARED = "not compared: "


@dataclass(frozen=True)
class WatchedModel:
    """One of the two: the model, its inputs, and the reference's path of each module that is watched."""

    label: str
    model: nn.Module
    inputs: tuple[tuple, dict[str, Any]]
    names: dict[nn.Module, str]
    root: str

    @property
    def is_function(self) -> bool:
        return isinstance(self.model, _Function)

    def run(
        self,
        probe: probing.Probe,
        then: Callable[[Any], Any] = lambda result: result,
        witness: probing.Witness | None = None,
    ) -> Any:
        """What `then` makes of the outputs, before the model's state is put back.

        The inputs are copies, so that a forward that writes to them does no harm.
        """
        args, kwargs = leaves.each_tensor(self.inputs, lambda tensor: tensor.clone())
        with self.errors_with_a_code(), state_kept(self.model):
            result = probing.run(
                self.model, args, kwargs, names=self.names, root=self.root, probe=probe, witness=witness
            )
            return then(result)

    @contextmanager
    def errors_with_a_code(self) -> Iterator[None]:
        """What the model raises is an error with a code, which says whose it is."""
        try:
            yield
        except TorchportError:
            raise
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> TorchportError:
        said = f"{type(error).__name__}: {error}"
        if self.label == "reference":
            return CaptureError("TP0201", f"the reference fails its own forward: {said}", user_line(error))
        return RunError("TP0603", f"the candidate fails on these inputs: {said}", user_line(error))

    def deterministic(self, probe: probing.Probe, then: Callable[[Any], Any] = lambda result: result) -> Any:
        """The same; where random numbers were drawn, a second run must give the same outputs."""
        before = self._random_state()
        first, answer = self.run(probe, lambda result: (result, then(result)))
        if all(torch.equal(old, new) for old, new in zip(before, self._random_state(), strict=True)):
            return answer
        second = self.run(_Passive())
        pairs = zip(leaves.tensors(first), leaves.tensors(second), strict=True)
        if all(_is_same(one, other) for (_, one), (_, other) in pairs):
            return answer
        mode = "it is in training mode" if self.model.training else "it draws random numbers in eval mode"
        raise CaptureError(
            "TP0204",
            f"the {self.label} does not give the same result twice: {mode}",
            fix=f"call {self.label}.eval(), or pass random tensors in as inputs",
        )

    def _random_state(self) -> list[Tensor]:
        devices = {p.device for p in self.model.parameters() if p.is_cuda}
        return [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in devices)]


def _is_same(one: Tensor, other: Tensor) -> bool:
    return bool(((one == other) | ((one != one) & (other != other))).all())


class _Passive:
    def enter(
        self, call: probing.WatchedCall, tensors: list[Tensor], places: list[leaves.Path]
    ) -> list[Tensor]:
        return tensors

    def leave(
        self, call: probing.WatchedCall, tensors: list[Tensor], places: list[leaves.Path]
    ) -> list[Tensor]:
        return tensors


@dataclass(frozen=True)
class Pair:
    reference: WatchedModel
    candidate: WatchedModel
    partner: dict[str, str | None]
    """For each path of the reference, of a module or a parameter, that of the candidate."""
    absent: dict[str, str]
    """Why a module of the reference is not compared."""

    @property
    def source(self) -> str | None:
        """Where the candidate is defined."""
        model = self.candidate.model
        if isinstance(model, _Function):
            return definition(model.function)
        return definition(type(model._modules.get("_orig_mod", model)))

    def why_not(self, golden: Counter[str], candidate: Counter[str]) -> dict[str, str]:
        """The paths that are not compared, now that it is known how often each module is called."""
        found = dict(self.absent)
        for path, count in golden.items():
            if path in found or candidate[path] == count:
                continue
            times = f"{candidate[path]} times where the reference calls it {count} times"
            why = "the candidate never calls it" if not candidate[path] else f"the candidate calls it {times}"
            found[path] = NOT_COMPARED + why
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
    args: tuple | list | Tensor,
    kwargs: Mapping[str, Any] | None,
    *,
    layers: bool,
    wish: Map | None,
) -> Pair:
    """Finds the candidate's modules by the reference's paths; a function is one module without parts."""
    _must_be_a_reference(reference)
    given = ((args,) if isinstance(args, Tensor) else tuple(args), dict(kwargs or {}))
    model = _as_module(candidate)
    root = type(reference).__name__
    taken = {path for path, _ in reference.named_modules()}
    while root in taken:
        root += "_"
    names = probing.by_path(reference)
    own = [*names.values(), *(name for name, _ in reference.named_parameters(remove_duplicate=False))]
    known = [*dict(model.named_modules()), *parameters_of(model)]
    partner = renamed(own, wish, known)
    found, absent = _matched(model, names.values(), partner, layers)
    sides = (
        WatchedModel("reference", reference, _moved(given, None, reference), names, root),
        WatchedModel("candidate", model, _moved(given, reference, model), found, root),
    )
    return Pair(*sides, partner, absent)


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    """By name, tied ones by each of their names; what torch.compile puts around a module is left out."""
    named = model.named_parameters(remove_duplicate=False)
    return {name.replace("_orig_mod.", ""): parameter for name, parameter in named}


def _must_be_a_reference(reference: Any) -> None:
    if not isinstance(reference, nn.Module):
        what = f"the reference is a {type(reference).__name__}, not an nn.Module"
        raise UsageError("TP0801", what, fix="give the module that is taken for right")
    if probing.is_closed(reference):
        raise UsageError(
            "TP0801",
            "the reference is compiled, and hooks do not see its layers",
            fix="give the module that it was compiled from",
        )


def _as_module(candidate: Any) -> nn.Module:
    if isinstance(candidate, nn.Module):
        return candidate
    if not callable(candidate):
        what = f"the candidate is a {type(candidate).__name__}, which cannot be called"
        raise UsageError("TP0801", what, fix="give an nn.Module, a function or a torchport.Port")
    return _Function(candidate)


class _Function(nn.Module):
    """A function as a module, which has the parameters of the function's owner if that has some."""

    def __init__(self, function: Callable):
        super().__init__()
        object.__setattr__(self, "function", function)
        owner = getattr(function, "__self__", None)
        if isinstance(owner, nn.Module):
            object.__setattr__(self, "named_parameters", owner.named_parameters)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)  # type: ignore[operator]


def _matched(
    model: nn.Module, paths: Any, partner: Mapping[str, str | None], layers: bool
) -> tuple[dict[nn.Module, str], dict[str, str]]:
    """The candidate's modules with the reference's paths, and why others have none."""
    everything = dict(model.named_modules(remove_duplicate=False))
    visible = set(probing.by_path(model))
    is_opaque = probing.is_closed(model) or isinstance(model, _Function)
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
        elif is_opaque:
            absent[path] = "hooks do not see inside the candidate"
        elif module is None:
            absent[path] = "the candidate has no such module"
        elif module not in visible:
            absent[path] = "it is inside compiled code"
        elif module in found:
            absent[path] = f"in the candidate it is the same module as {found[module] or 'the model'}"
        else:
            found[module] = path
    return found, {path: NOT_COMPARED + why for path, why in absent.items()}


def _moved(given: tuple, reference: nn.Module | None, model: nn.Module) -> tuple:
    """The inputs on the model's device and, where it has another dtype than the reference, in that dtype."""
    tensors = [*model.parameters(), *model.buffers()]
    if any(is_lazy(tensor) or tensor.is_meta for tensor in tensors):
        what = "has lazy layers or is on the meta device, so it has no values"
        raise CaptureError("TP0201", f"{type(model).__name__} {what}", fix="give it its weights first")
    devices = {tensor.device for tensor in tensors}
    device = next(iter(devices)) if len(devices) == 1 else None
    old, new = (None, None) if reference is None else (_only_dtype(reference), _only_dtype(model))

    def move(tensor: Tensor) -> Tensor:
        dtype = new if new is not None and tensor.dtype == old else tensor.dtype
        return tensor.detach().to(device or tensor.device, dtype)

    return leaves.each_tensor(given, move)


def _only_dtype(model: nn.Module) -> torch.dtype | None:
    floats = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    return next(iter(floats)) if len(floats) == 1 else None


@contextmanager
def undisturbed(pair: Pair) -> Iterator[None]:
    """Afterwards both models and the random numbers are as before. The modes of the models are kept."""
    fast_path = torch.backends.mha.get_fastpath_enabled()
    models = (pair.reference.model, pair.candidate.model)
    devices = {p.device.index for model in models for p in model.parameters() if p.is_cuda}
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=list(devices)))
        for model in models:
            stack.enter_context(state_kept(model))
        try:
            # The fast path of attention leaves out the modules inside.
            torch.backends.mha.set_fastpath_enabled(False)
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_path)
