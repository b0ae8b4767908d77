"""Running a module with its calls shown to a probe, which may change what goes in and what comes out."""

from __future__ import annotations

import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from torchport.candidates import leaves
from torchport.candidates.checkpoints import may_be_in_a_checkpoint
from torchport.candidates.identity import bytes_of
from torchport.candidates.in_place import HandedInput, handed_inputs, write_through
from torchport.candidates.probing import Probe, WatchedCall, Witness, inputs_of, user_frame
from torchport.capture.source import definition
from torchport.capture.torch_internals import is_in_transform, plain_torch
from torchport.errors import TorchportError

Shown = Callable[[WatchedCall, list[Tensor], list[leaves.Path]], list[Tensor]]
_CALLED = "_compiled_call_impl"
"""The attribute that torch calls in the place of a module's hooks and forward, if it is there."""


def run(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    names: Mapping[nn.Module, str],
    root: str,
    probe: Probe,
    blame: Callable[[Exception], TorchportError],
    then: Callable[[Any], Any],
    witness: Witness | None = None,
    known_as: Mapping[str, tuple[str, str]] | None = None,
) -> Any:
    """Calls the model with the modules in `names` watched, and known by these paths, and gives what `then` makes of
    the result.

    `known_as` gives calls other names and paths: those of the reference's calls that they stand for. A call that is not
    in it stands for none.
    What the model raises is raised as `blame` puts it. An error of the probe or the witness is none of the model's:
    it is raised as it is, even if the model's code catches it.
    """
    watcher = _Watcher(root, probe, witness, known_as)
    with watcher.watches(names):
        with watcher.faults_raised():
            try:
                result = model(*args, **kwargs)
            except (TorchportError, MemoryError):
                raise
            except Exception as error:
                raise blame(error) from error
        watcher.is_over = True
        with watcher.faults_raised():
            return then(result)


class _Watcher:
    """Stands around the calls of modules, outside of their hooks, which scripted and compiled modules do not take."""

    def __init__(
        self,
        root: str,
        probe: Probe,
        witness: Witness | None,
        known_as: Mapping[str, tuple[str, str]] | None,
    ):
        self.root, self.probe, self.witness, self.known_as = root, probe, witness, known_as
        self.stack: list[WatchedCall] = []
        self.counts: Counter[str] = Counter()
        self.thread = threading.get_ident()
        self.is_recorded = torch.is_grad_enabled()
        """Whether gradients are recorded outside of the model."""
        self.fault: BaseException | None = None
        """The first error of the probe or the witness."""
        self.is_over = False
        """Whether the forward pass is over: calls after that repeat earlier ones, in the backward pass."""
        self.is_with_probe = False
        """Whether the probe is at work: calls meanwhile repeat earlier ones, because it goes back through some."""
        self.repeatable: dict[nn.Module, list[tuple[WatchedCall, int]]] = defaultdict(list)
        """By module, the calls that may be made again, each with the hash of its inputs."""

    @contextmanager
    def faults_raised(self) -> Iterator[None]:
        """Within runs code that may catch, or translate, an error of the probe or the witness."""
        try:
            yield
        except BaseException:
            if self.fault is None:
                raise
        if self.fault is not None:
            raise self.fault

    @contextmanager
    def watches(self, names: Mapping[nn.Module, str]) -> Iterator[None]:
        before = {module: vars(module)[_CALLED] for module in names if _CALLED in vars(module)}
        try:
            for module, path in names.items():
                usual = before.get(module) or module._call_impl
                vars(module)[_CALLED] = partial(self._called, module, path, usual)
            yield
        finally:
            for module in names:
                vars(module).pop(_CALLED, None)
            for module, called in before.items():
                vars(module)[_CALLED] = called

    def _called(
        self, module: nn.Module, path: str, usual: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        if self.is_over or self.is_with_probe:
            return self._called_again(module, usual, args, kwargs)
        # Somebody else uses the module at the same time, or its tensors have no values: it is a part of its caller.
        if threading.get_ident() != self.thread or is_in_transform():
            return usual(*args, **kwargs)
        call = self._named(module, path)
        args, kwargs, handed = self._ours(self._enter, call, module, args, kwargs)
        self.stack.append(call)
        try:
            output = usual(*args, **kwargs)
        except BaseException:
            self.probe.raised(call)
            raise
        finally:
            self.stack.pop()
        return self._ours(self._leave, call, module, output, handed)

    def _called_again(
        self, module: nn.Module, usual: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call in the backward pass, in which a checkpoint repeats what it did in the forward pass."""
        call = self._ours(self._repeated, module, args, kwargs)
        if call is None:
            return usual(*args, **kwargs)
        change = self.probe.enter_again
        args, kwargs, handed = self._ours(self._changed_inputs, call, module, args, kwargs, change)
        try:
            output = usual(*args, **kwargs)
        except BaseException:
            self.probe.raised_again(call)
            raise
        return self._ours(self._changed_outputs, call, output, handed, self.probe.leave_again)

    def _repeated(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> WatchedCall | None:
        """The call of the forward pass that had the same inputs; None if there is none, or none is left."""
        earlier = self.repeatable[module]
        if not earlier:
            return None
        inputs = _hashed(inputs_of(module, args, kwargs)[0])
        found = next((one for one in reversed(earlier) if one[1] == inputs), None)
        if found is None:
            return None
        if torch.is_grad_enabled():  # Otherwise a checkpoint in a checkpoint will make it once more.
            earlier.remove(found)
        return found[0]

    def _ours(self, step: Callable[..., Any], *given: Any) -> Any:
        before, self.is_with_probe = self.is_with_probe, True
        try:
            with plain_torch():
                return step(*given)
        except BaseException as error:
            self.fault = self.fault or error
            raise
        finally:
            self.is_with_probe = before

    def _named(self, module: nn.Module, path: str) -> WatchedCall:
        base = path or self.root
        nth = self.counts[base]
        self.counts[base] += 1
        name = f"{base}#{nth}" if nth else base
        if self.known_as is not None:
            name, path = self.known_as.get(name, (f"+{name}", path))
        return WatchedCall(
            name=name,
            path=path,
            type=f"{type(module).__module__}.{type(module).__qualname__}",
            source=_calling_line() if self.stack else definition(type(module)),
            parent=self.stack[-1].name if self.stack else None,
        )

    def _enter(
        self, call: WatchedCall, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], list[HandedInput]]:
        if self.is_recorded and may_be_in_a_checkpoint():
            found, _ = inputs_of(module, args, kwargs)
            self.repeatable[module].append((call, _hashed(found)))
        args, kwargs, handed = self._changed_inputs(call, module, args, kwargs, self.probe.enter)
        if self.witness is not None:
            self.witness.entered(call, module, args, kwargs)
        return args, kwargs, handed

    def _leave(self, call: WatchedCall, module: nn.Module, output: Any, handed: list[HandedInput]) -> Any:
        output = self._changed_outputs(call, output, handed, self.probe.leave)
        if self.witness is not None:
            self.witness.left(call, module, output)
        return output

    def _changed_inputs(
        self, call: WatchedCall, module: nn.Module, args: Any, kwargs: Any, change: Shown
    ) -> tuple[tuple[Any, ...], dict[str, Any], list[HandedInput]]:
        found, places = inputs_of(module, args, kwargs)
        leaves.must_be_plain(found, f"{call.name} is given", call.source)
        tensors = [tensor for _, tensor in found]
        given = change(call, tensors, places)
        if given is not tensors:
            changed = _changed([place for place, _ in found], tensors, given)
            args, kwargs = leaves.put_into((args, kwargs), changed) if changed else (args, kwargs)
        return args, kwargs, handed_inputs(tensors, given)

    def _changed_outputs(
        self, call: WatchedCall, output: Any, handed: list[HandedInput], change: Shown
    ) -> Any:
        found = leaves.tensors(output)
        leaves.must_be_plain(found, f"{call.name} returns", call.source)
        places, tensors = [place for place, _ in found], [tensor for _, tensor in found]
        result = change(call, tensors, places)
        write_through(handed, tensors, result)
        changed = {} if result is tensors else _changed(places, tensors, result)
        return leaves.put_into(output, changed) if changed else output


def _changed(
    places: list[leaves.Path], tensors: list[Tensor], others: list[Tensor]
) -> dict[leaves.Path, Tensor]:
    """What is put in the place of tensors, by their places."""
    both = zip(places, tensors, others, strict=True)
    return {place: other for place, tensor, other in both if other is not tensor}


def _hashed(found: list[tuple[leaves.Path, Tensor]]) -> int:
    return hash(tuple(bytes_of(tensor) for _, tensor in found))


def _calling_line() -> str | None:
    """The line outside torch that makes the call of a watched module; None if torch itself makes it."""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        found = user_frame(frame)
        if found is not None:
            return f"{found.f_code.co_filename}:{found.f_lineno}"
        frame = _beyond_a_watched_call(frame)
    return None


def _beyond_a_watched_call(frame: FrameType) -> FrameType | None:
    """The frame from which a watched call came, if the nearest frame of ours is only its watcher's."""
    back: FrameType | None = frame
    while back is not None and back.f_globals.get("__name__", "").partition(".")[0] != "torchport":
        back = back.f_back
    is_watcher = back is not None and back.f_code is _Watcher._called.__code__
    return back.f_back if back is not None and is_watcher else None
