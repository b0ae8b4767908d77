"""The door to Dynamo: `watching(observer)` reports every frame that is compiled, with no change to what is compiled.

A compilation becomes one `RawCompilation`, handed to all observers when it ends, on the thread that compiled. Of
Dynamo's own objects nothing is kept: only text, numbers and code objects.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from importlib import import_module
from typing import Any

from torchport.debug.internals import dynamo_guards, dynamo_hooks, dynamo_state
from torchport.debug.internals.dynamo_hooks import FRAMES, Observer
from torchport.debug.internals.needs import Need

NEEDS: tuple[Need, ...] = ()

_WRAPPERS = {
    "compilations": dynamo_hooks.on_compilation,
    "skips": dynamo_hooks.on_tracing,
    "recompilations": dynamo_hooks.on_recompilation,
    "limits": dynamo_hooks.on_limit,
    "breaks": dynamo_hooks.on_break,
    "ends": dynamo_hooks.on_end_of_graph,
    "graphs": dynamo_hooks.on_graph,
}
_SKIPS = Need(
    "all skips", FRAMES, "CatchErrorsWrapper._handle_skip", "guards: frames that are not traced at all"
)
_SKIPS_BEFORE_2_14 = (
    (
        Need("no tensors", FRAMES, "has_tensor_in_frame", _SKIPS.used_for),
        dynamo_hooks.on_question(False, "no tensor-related objects found in frame"),
    ),
    (
        Need("generators", FRAMES, "is_generator", _SKIPS.used_for),
        dynamo_hooks.on_question(True, dynamo_hooks.GENERATOR),
    ),
)

_installed: list[tuple[Any, str, Any, Any]] = []
_lock = threading.RLock()


@contextmanager
def watching(observer: Observer) -> Iterator[None]:
    """Reports to the observer for as long as it lasts. Any number may watch at a time, on any threads."""
    with _lock:
        if not dynamo_hooks.observers:
            _install()
        dynamo_hooks.observers.append(observer)
    try:
        yield
    finally:
        with _lock:
            dynamo_hooks.observers[:] = [one for one in dynamo_hooks.observers if one is not observer]
            if not dynamo_hooks.observers:
                _uninstall()


def not_observed() -> list[Need]:
    """What an observer is not told of under this version of torch."""
    needs = (*dynamo_hooks.NEEDS, *dynamo_guards.NEEDS, *dynamo_state.NEEDS)
    return [need for need in needs if _find(need) is None]


def is_observable() -> bool:
    return _find(dynamo_hooks.NEEDS[0]) is not None


def _find(need: Need) -> tuple[Any, str, Any] | None:
    """The owner of what is needed, its name there, and itself; None if this torch does not have it."""
    *path, name = need.attribute.split(".")
    try:
        owner = reduce(getattr, path, import_module(need.module))
        return owner, name, getattr(owner, name)
    except (ImportError, AttributeError):
        return None


def _install() -> None:
    for need in dynamo_hooks.NEEDS:
        _wrap(need, _WRAPPERS[need.name])
    if not _wrap(_SKIPS, dynamo_hooks.on_skip):
        for need, wrapper in _SKIPS_BEFORE_2_14:
            _wrap(need, wrapper)


def _wrap(need: Need, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
    found = _find(need)
    if found is None:
        return False
    owner, name, original = found
    wrapped = wrapper(original)
    setattr(owner, name, wrapped)
    _installed.append((owner, name, original, wrapped))
    return True


def _uninstall() -> None:
    """Puts Dynamo's own functions back; what others have wrapped since is left, and ours then only passes on."""
    while _installed:
        owner, name, original, wrapped = _installed.pop()
        if getattr(owner, name) is wrapped:
            setattr(owner, name, original)
