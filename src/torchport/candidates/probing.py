"""What is known of a call while a model runs, and which modules of a model can be watched."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import FrameType
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from torchport.candidates import leaves

BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class WatchedCall(NamedTuple):
    """One call of a module: `path`, then `path#1` when it is called again."""

    name: str
    path: str
    type: str
    source: str | None
    """The line that makes the call; for the model itself, the line that defines its class."""
    parent: str | None


class Probe(Protocol):
    """Is shown the tensors of each call, in order, and gives those to go on with.

    `places` are where they are: under the names of forward's parameters, and in what it returns.
    """

    def enter(self, call: WatchedCall, tensors: list[Tensor], places: list[leaves.Path]) -> list[Tensor]: ...

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[leaves.Path]) -> list[Tensor]: ...

    def enter_again(
        self, call: WatchedCall, tensors: list[Tensor], places: list[leaves.Path]
    ) -> list[Tensor]: ...

    def leave_again(
        self, call: WatchedCall, tensors: list[Tensor], places: list[leaves.Path]
    ) -> list[Tensor]:
        """The same for a call that a checkpoint makes again in the backward pass."""

    def raised(self, call: WatchedCall) -> None:
        """Is told that a call ended in an error, and so returns nothing. Its caller may go on without."""

    def raised_again(self, call: WatchedCall) -> None:
        """Is told that a call which a checkpoint makes again was not gone through to its end."""


class NotRepeated:
    """A part of a probe for runs without a backward pass, to which an error in a call means nothing."""

    def enter_again(
        self, call: WatchedCall, tensors: list[Tensor], places: list[leaves.Path]
    ) -> list[Tensor]:
        return tensors

    def leave_again(
        self, call: WatchedCall, tensors: list[Tensor], places: list[leaves.Path]
    ) -> list[Tensor]:
        return tensors

    def raised(self, call: WatchedCall) -> None:
        pass

    def raised_again(self, call: WatchedCall) -> None:
        pass


class Witness(Protocol):
    """Is shown every call as a whole, with what the probe put into it, and changes nothing."""

    def entered(
        self, call: WatchedCall, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None: ...

    def left(self, call: WatchedCall, module: nn.Module, result: Any) -> None: ...


class Witnesses:
    """Several witnesses as one. The first is shown a call before the others, and its end after them."""

    def __init__(self, *witnesses: Witness):
        self.witnesses = witnesses

    def entered(
        self, call: WatchedCall, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        for witness in self.witnesses:
            witness.entered(call, module, args, kwargs)

    def left(self, call: WatchedCall, module: nn.Module, result: Any) -> None:
        for witness in reversed(self.witnesses):
            witness.left(call, module, result)


def by_path(model: nn.Module) -> dict[nn.Module, str]:
    """The modules that can be watched, each by its first path; what is inside closed code cannot be."""
    found: dict[nn.Module, str] = {}
    closed: list[str] = []
    for path, module in model.named_modules():
        if any(path.startswith(prefix) for prefix in closed):
            continue
        found[module] = path
        if is_closed(module):
            closed.append(f"{path}." if path else "")
    return found


def is_closed(module: nn.Module) -> bool:
    """Whether the calls inside a module are not seen: it is compiled, scripted or exported."""
    return closed_kind(module) is not None


def closed_kind(module: nn.Module) -> str | None:
    """Why the calls inside a module are not seen, such as `compiled`; None if they are seen."""
    if isinstance(module, torch.jit.ScriptModule):
        return "scripted"
    is_compiled = "_orig_mod" in module._modules or getattr(module, "_compiled_call_impl", None) is not None
    if is_compiled or hasattr(vars(module).get("forward"), "_torchdynamo_orig_callable"):
        return "compiled"
    return (
        "exported"
        if isinstance(module, torch.fx.GraphModule) and hasattr(module, "validate_inputs")
        else None
    )


def inputs_of(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[list[tuple[leaves.Path, Tensor]], list[leaves.Path]]:
    """The tensors that a call is given, in the order of forward's parameters, and where they are among these."""
    parameters = forward_parameters(module)
    if not kwargs and len(args) == 1 and isinstance(args[0], Tensor):
        is_named = len(parameters) > 0 and parameters[0].kind in BY_POSITION
        return [((0, 0), args[0])], [(parameters[0].name if is_named else 0,)]
    names = [one.name for one in parameters]
    by_position = sum(one.kind in BY_POSITION for one in parameters)

    def rank(found: tuple[leaves.Path, Tensor]) -> int:
        side, key = found[0][:2]
        if side == 0:
            return int(key)
        return names.index(key) if key in names else len(names)

    def named(place: leaves.Path) -> leaves.Path:
        side, key, *inside = place
        name = names[key] if side == 0 and key < by_position else key
        return (name, *inside)

    found = sorted(leaves.tensors((args, dict(kwargs))), key=rank)
    return found, [named(place) for place, _ in found]


def forward_parameters(module: nn.Module) -> tuple[inspect.Parameter, ...]:
    """The parameters of forward, those that can be given by position first; none are known if it is not in Python."""
    if "forward" in vars(module) or isinstance(module, torch.jit.ScriptModule):
        return _read_parameters(module.forward)
    return _parameters_of_method(type(module).forward)


@lru_cache(maxsize=4096)
def _parameters_of_method(forward: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    return _read_parameters(forward)[1:]


def _read_parameters(forward: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    try:
        parameters = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(one for one in parameters if one.kind in (*BY_POSITION, one.KEYWORD_ONLY))


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame outside torch from which a call came; None if it came from torchport itself."""
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package == "torchport":
            return None
        if package != "torch":
            return frame
        frame = frame.f_back
    return None
