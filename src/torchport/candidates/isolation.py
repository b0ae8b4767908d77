"""One call of a model by itself: run again on golden inputs, with recorded values in the place of the calls inside it.

In: the model, the plan of the calls that are compared, and the name of one of them. Out: an `IsolatedCall`, which
computes what the call hands to the calls inside it and what it returns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

from torchport.candidates import leaves
from torchport.candidates.golden import GoldenPlan, Places
from torchport.candidates.lockstep import LockStep, at_places
from torchport.candidates.probing import WatchedCall, inputs_of, is_closed
from torchport.candidates.watched_model import WatchedModel
from torchport.errors import CaptureError
from torchport.trace.plan import Call


@dataclass(frozen=True)
class Border:
    """A call and the compared calls that it makes itself. Both models have the same border."""

    call: Call
    inside: tuple[Call, ...]

    @classmethod
    def of(cls, plan: GoldenPlan, name: str) -> Border:
        return cls(plan.calls[name], tuple(call for call in plan.calls.values() if call.parent == name))

    @property
    def given(self) -> tuple[str, ...]:
        """The keys of what the call works with: its inputs, and the outputs of the calls inside."""
        return (*self.call.inputs, *(key for call in self.inside for key in call.outputs))

    @property
    def computed(self) -> tuple[str, ...]:
        """The keys of what the call hands to the calls inside, and of what it returns."""
        return (*(key for call in self.inside for key in call.inputs), *self.call.outputs)


@dataclass(frozen=True)
class IsolatedCall:
    """A call of one model, with the module that it is a call of and the arguments that it had in lock-step."""

    border: Border
    plan: GoldenPlan
    side: str
    """Whose call it is: `reference` or `candidate`."""
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: dict[str, Any]
    """By the name of a call inside, what it returns."""
    made: dict[nn.Module, list[str]]
    """For each module with a call inside, the names of all its calls that are made there, compared or not."""

    @property
    def _places(self) -> Places:
        return self.plan.places[self.side]

    @property
    def given(self) -> dict[str, Tensor]:
        """The golden values that the call works with, where this model is and in its dtype."""
        found, places = inputs_of(self.module, self.args, self.kwargs)
        values = self._by_key(self.border.call.inputs, self._places.given, self.border.call, places)
        known = {key: found[index][1] for key, index in values.items()}
        for call in self.border.inside:
            tensors = leaves.tensors(self.results[call.name])
            places = [place for place, _ in tensors]
            chosen = self._by_key(call.outputs, self._places.returned, call, places)
            known |= {key: tensors[index][1] for key, index in chosen.items()}
        for key, value in known.items():
            if value.shape != self.plan.value(key).shape:
                raise CaptureError("TP0202", f"{key} has another shape than in the reference")
        return known

    @property
    def state(self) -> dict[str, Tensor]:
        """The parameters and buffers of the module, each by its first name."""
        return {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}

    def compute(self, given: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What the call computes from these values, with these parameters and buffers, by key."""
        computed: dict[str, Tensor] = {}
        with self._stand_ins(given, computed):
            args, kwargs = self._arguments(given)
            if state:
                result = functional_call(self.module, dict(state), args, kwargs)
            else:
                result = self.module(*args, **kwargs)
        tensors = leaves.tensors(result)
        places = [place for place, _ in tensors]
        chosen = self._by_key(self.border.call.outputs, self._places.returned, self.border.call, places)
        computed |= {key: tensors[index][1] for key, index in chosen.items()}
        missing = set(self.border.computed) - computed.keys()
        if missing:
            raise CaptureError("TP0202", f"by itself, it does not come to {min(missing)}")
        return computed

    def _arguments(self, given: Mapping[str, Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        found, places = inputs_of(self.module, self.args, self.kwargs)
        chosen = self._by_key(self.border.call.inputs, self._places.given, self.border.call, places)
        changed = {found[index][0]: given[key] for key, index in chosen.items()}
        args, kwargs = leaves.put_into(leaves.copied((self.args, self.kwargs), _as_it_is), changed)
        return args, kwargs

    @staticmethod
    def _by_key(
        keys: Any, places_of: Mapping[str, list[leaves.Path]], call: Call, places: list[leaves.Path]
    ) -> dict[str, int]:
        """For each key the position of its tensor among those at `places`."""
        known = places_of[call.name]
        found = dict(at_places(keys, known, places)) if len(known) == len(keys) else {}
        if len(found) < len(keys):
            raise CaptureError("TP0202", f"{call.name} has other tensors than in the reference")
        return found

    @contextmanager
    def _stand_ins(self, given: Mapping[str, Tensor], computed: dict[str, Tensor]) -> Iterator[None]:
        """While it lasts, the calls inside return what is given, and what they are handed is noted.

        Other calls of the same modules, which are not compared, are made as usual.
        """
        inside = {call.name: call for call in self.border.inside}
        waiting = {module: [inside.get(name) for name in names] for module, names in self.made.items()}

        def stand_in(module: nn.Module) -> Callable[..., Any]:
            usual = vars(module).get("_compiled_call_impl") or module._call_impl

            def called(*args: Any, **kwargs: Any) -> Any:
                if not waiting[module]:
                    raise CaptureError("TP0202", "by itself, it makes other calls than in the model")
                call = waiting[module].pop(0)
                if call is None:
                    return usual(*args, **kwargs)
                found, places = inputs_of(module, args, kwargs)
                inputs = self._by_key(call.inputs, self._places.given, call, places)
                computed.update({key: found[index][1] for key, index in inputs.items()})
                return self._returned(call, given)

            return called

        with ExitStack() as stack:
            for module in list(waiting):
                stack.enter_context(_called_instead(module, stand_in(module)))
            yield

    def _returned(self, call: Call, given: Mapping[str, Tensor]) -> Any:
        result = self.results[call.name]
        places = [place for place, _ in leaves.tensors(result)]
        chosen = self._by_key(call.outputs, self._places.returned, call, places)
        changed = {places[index]: given[key] for key, index in chosen.items()}
        return leaves.put_into(leaves.copied(result, _as_it_is), changed)


@contextmanager
def _called_instead(module: nn.Module, function: Callable[..., Any]) -> Iterator[None]:
    """While it lasts, a call of the module is one of the function, and its hooks do not run."""
    names = ("_call_impl", "_compiled_call_impl")
    before = {name: vars(module)[name] for name in names if name in vars(module)}
    try:
        vars(module).update(dict.fromkeys(names, function))
        yield
    finally:
        for name in names:
            del vars(module)[name]
        vars(module).update(before)


def isolate(model: WatchedModel, plan: GoldenPlan, name: str, without_outputs: set[str]) -> IsolatedCall:
    """Runs the model in lock-step up to a call and notes how it is made; CaptureError if it cannot be traced.

    `without_outputs` are the calls that lack outputs, in the place of which golden ones cannot be put.
    """
    catch = _Catch(Border.of(plan, name), plan)
    model.run(LockStep(plan, model.label, without_outputs), witness=catch)
    if catch.module is None:
        raise CaptureError("TP0202", f"{name} is not called")
    compared = {call.name for call in catch.border.inside}
    outside = {module for module, names in catch.made.items() if compared.issuperset(names)}
    if any(is_closed(module) for module in _not_below(catch.module, outside)):
        raise CaptureError("TP0202", f"{name} is compiled, so that its operations are not seen")
    return IsolatedCall(
        catch.border, plan, model.label, catch.module, catch.args, catch.kwargs, catch.results, catch.made
    )


def _not_below(module: nn.Module, others: set[nn.Module]) -> Iterator[nn.Module]:
    """The module and those in it, without some of them and what is in these."""
    if module not in others:
        yield module
        for child in module.children():
            yield from _not_below(child, others)


@dataclass
class _Catch:
    """A witness that keeps one call, and what the calls inside it return."""

    border: Border
    plan: GoldenPlan
    module: nn.Module | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    own: dict[nn.Module, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By module, the calls that the one that is kept makes, itself or in calls that are not compared."""
    parents: dict[str, str | None] = field(default_factory=dict)

    @property
    def made(self) -> dict[nn.Module, list[str]]:
        """The same for modules of which a call is compared."""
        compared = {call.name for call in self.border.inside}
        return {module: names for module, names in self.own.items() if compared & set(names)}

    def entered(
        self, call: WatchedCall, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.parents[call.name] = call.parent
        if self._maker(call.name) == self.border.call.name:
            self.own[module].append(call.name)
        if call.name == self.border.call.name:
            self.module = module
            self.args, self.kwargs = leaves.copied((args, kwargs), _copy)

    def left(self, call: WatchedCall, module: nn.Module, result: Any) -> None:
        if any(call.name == inside.name for inside in self.border.inside):
            self.results[call.name] = leaves.copied(result, _copy)

    def _maker(self, name: str) -> str | None:
        """The nearest call that a call is made in and that is compared."""
        maker = self.parents[name]
        while maker is not None and maker not in self.plan.calls:
            maker = self.parents[maker]
        return maker


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().clone()


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor
