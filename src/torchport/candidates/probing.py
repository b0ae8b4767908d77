"""Running a module with its calls shown to a probe, which may change what goes in and what comes out."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from torchport.candidates import leaves
from torchport.candidates.in_place import HandedInput, handed_inputs, write_through
from torchport.capture.source import definition
from torchport.errors import CaptureError

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class WatchedCall:
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


class Witness(Protocol):
    """Is shown every call as a whole, with what the probe put into it, and changes nothing."""

    def entered(
        self, call: WatchedCall, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None: ...

    def left(self, call: WatchedCall, module: nn.Module, result: Any) -> None: ...


def run(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    names: Mapping[nn.Module, str],
    root: str,
    probe: Probe,
    witness: Witness | None = None,
    known_as: Mapping[str, tuple[str, str]] | None = None,
) -> Any:
    """Calls the model with the modules in `names` watched, and known by these paths.

    `known_as` gives calls other names and paths: those of the reference's calls that they stand for. A call that is not
    in it stands for none.
    """
    watcher = _Watcher(root, probe, witness, known_as)
    with ExitStack() as stack:
        for module, path in names.items():
            before = module.register_forward_pre_hook(watcher.enter(path), with_kwargs=True, prepend=True)
            stack.callback(before.remove)
            stack.callback(module.register_forward_hook(watcher.leave).remove)
        return model(*args, **kwargs)


def by_path(model: nn.Module) -> dict[nn.Module, str]:
    """The modules that can be watched, each by its first path; what is inside compiled code cannot be."""
    found: dict[nn.Module, str] = {}
    closed: list[str] = []
    for path, module in model.named_modules():
        if any(path.startswith(prefix) for prefix in closed):
            continue
        if not isinstance(module, torch.jit.ScriptModule):  # which takes no hooks
            found[module] = path
        if is_closed(module):
            closed.append(f"{path}." if path else "")
    return found


def is_closed(module: nn.Module) -> bool:
    """Whether hooks do not see what is inside: compiled or scripted code."""
    compiled = "_orig_mod" in module._modules or getattr(module, "_compiled_call_impl", None) is not None
    return compiled or isinstance(module, torch.jit.ScriptModule)


class _Watcher:
    def __init__(
        self,
        root: str,
        probe: Probe,
        witness: Witness | None,
        known_as: Mapping[str, tuple[str, str]] | None,
    ):
        self.root, self.probe, self.witness, self.known_as = root, probe, witness, known_as
        self.stack: list[tuple[WatchedCall, list[HandedInput]]] = []
        self.counts: Counter[str] = Counter()

    def enter(self, path: str) -> Callable[..., Any]:
        def hook(
            module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> tuple[tuple[Any, ...], dict[str, Any]]:
            name, known_path = self._name(path)
            call = WatchedCall(
                name=name,
                path=known_path,
                type=f"{type(module).__module__}.{type(module).__qualname__}",
                source=_calling_line() if self.stack else definition(type(module)),
                parent=self.stack[-1][0].name if self.stack else None,
            )
            found, places = inputs_of(module, args, kwargs)
            tensors = [tensor for _, tensor in found]
            given = self.probe.enter(call, tensors, places)
            self.stack.append((call, handed_inputs(tensors, given)))
            if any(new is not old for new, old in zip(given, tensors, strict=True)):
                changed = dict(zip((place for place, _ in found), given, strict=True))
                args, kwargs = leaves.replaced((args, kwargs), lambda place, leaf: changed.get(place, leaf))
            if self.witness is not None:
                self.witness.entered(call, module, args, kwargs)
            return args, kwargs

        return hook

    def leave(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        call, handed = self.stack.pop()
        found = leaves.tensors(output)
        for place, tensor in found:
            _must_be_plain(call, place, tensor)
        places, tensors = [place for place, _ in found], [tensor for _, tensor in found]
        result = self.probe.leave(call, tensors, places)
        write_through(handed, tensors, result)
        if any(new is not old for new, old in zip(result, tensors, strict=True)):
            changed = dict(zip(places, result, strict=True))
            output = leaves.replaced(output, lambda place, leaf: changed.get(place, leaf))
        if self.witness is not None:
            self.witness.left(call, module, output)
        return output

    def _name(self, path: str) -> tuple[str, str]:
        base = path or self.root
        nth = self.counts[base]
        self.counts[base] += 1
        name = f"{base}#{nth}" if nth else base
        return (name, path) if self.known_as is None else self.known_as.get(name, (f"+{name}", path))


def _must_be_plain(call: WatchedCall, place: leaves.Path, tensor: Tensor) -> None:
    kind = "quantized" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
    if kind != "strided":
        message = f"the output {leaves.described_path(place)} of {call.name} is a {kind} tensor"
        raise CaptureError("TP0205", message, where=call.source, fix="return dense tensors")


def inputs_of(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[list[tuple[leaves.Path, Tensor]], list[leaves.Path]]:
    """The tensors that a call is given, in the order of forward's parameters, and where they are among these."""
    by_position, names = _parameters(module)

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


def _parameters(module: nn.Module) -> tuple[int, tuple[str, ...]]:
    """How many parameters of forward can be given by position, and the names of all, these first."""
    if "forward" in vars(module):
        return _read_parameters(inspect.signature(module.forward))
    return _parameters_of_method(type(module).forward)


@lru_cache(maxsize=4096)
def _parameters_of_method(forward: Callable[..., Any]) -> tuple[int, tuple[str, ...]]:
    count, names = _read_parameters(inspect.signature(forward))
    return max(0, count - 1), names[1:]


def _read_parameters(signature: inspect.Signature) -> tuple[int, tuple[str, ...]]:
    parameters = signature.parameters.values()
    first = [one.name for one in parameters if one.kind in _BY_POSITION]
    return len(first), (*first, *(one.name for one in parameters if one.kind is one.KEYWORD_ONLY))


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


def _calling_line() -> str | None:
    """The line outside torch that makes the call of a hook's module; None where torch itself makes it."""
    frame = user_frame(sys._getframe(2))
    return None if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
