"""Which adapters there are: those of this package by name, those of other packages by an entry point.

Another package has in its pyproject.toml: `[project.entry-points."torchport.accelerators"]`, `name = "module:Adapter"`,
an adapter, its class, or a function that makes one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from torchport.debug.adapters.base import AcceleratorAdapter
from torchport.errors import CompileError, TorchportError

GROUP = "torchport.accelerators"
_OWN = {
    "integrated_mock": "torchport.debug.adapters.integrated:IntegratedMockAdapter",
    "mock_accelerator": "torchport.debug.adapters.mock:MockAcceleratorAdapter",
}


@dataclass(frozen=True)
class FoundAdapter:
    """An adapter that can be named, or the reason why it cannot be had."""

    name: str
    place: str
    """`module:attribute`."""
    package: str
    """The distribution that brings it."""
    adapter: AcceleratorAdapter | None = None
    problem: str | None = None


def available_adapters() -> list[FoundAdapter]:
    """All adapters by name. One that is broken is listed with its problem, and hides no other."""
    points = _entry_points()
    counts = Counter(point.name for point in points)
    return [_found(point, counts[point.name]) for point in sorted(points, key=lambda one: one.name)]


def find_adapter(name: str) -> AcceleratorAdapter:
    """The adapter of that name; it is imported only now."""
    named = [point for point in _entry_points() if point.name == name]
    if not named:
        names = sorted({point.name for point in _entry_points()})
        raise CompileError(
            "TP1055", f"there is no adapter {name!r}", fix=f"the adapters are: {', '.join(names)}"
        )
    if len(named) > 1:
        raise CompileError("TP1052", _taken(name, named))
    point = named[0]
    try:
        return _load(point)
    except Exception as error:  # The module of another package raises whatever it likes.
        raise CompileError(
            "TP1055",
            f"the adapter {name!r} cannot be loaded from {point.value}: {_reason(error)}",
            where=point.value,
            fix=f"Mend the package {_package(point)}, or remove it.",
        ) from error


def _found(point: EntryPoint, namesakes: int) -> FoundAdapter:
    if namesakes > 1:
        named = [one for one in _entry_points() if one.name == point.name]
        return FoundAdapter(point.name, point.value, _package(point), problem=_taken(point.name, named))
    try:
        return FoundAdapter(point.name, point.value, _package(point), adapter=_load(point))
    except Exception as error:
        return FoundAdapter(point.name, point.value, _package(point), problem=_reason(error))


def _load(point: EntryPoint) -> AcceleratorAdapter:
    named = point.load()
    adapter = named if isinstance(named, AcceleratorAdapter) or not callable(named) else named()
    if not isinstance(adapter, AcceleratorAdapter):
        raise CompileError("TP1051", f"{type(adapter).__name__} is no AcceleratorAdapter")
    if not hasattr(adapter, "capabilities"):
        raise CompileError("TP1051", f"{type(adapter).__name__} has no capabilities")
    if adapter.name != point.name:
        raise CompileError("TP1051", f"it calls itself {adapter.name}, and its entry point {point.name}")
    return adapter


def _entry_points() -> list[EntryPoint]:
    own = [EntryPoint(name, place, GROUP) for name, place in _OWN.items()]
    return [*own, *entry_points(group=GROUP)]


def _taken(name: str, named: list[EntryPoint]) -> str:
    places = " and ".join(f"{point.value} ({_package(point)})" for point in sorted(named, key=_package))
    return f"the name {name!r} is given to several adapters: {places}"


def _package(point: EntryPoint) -> str:
    return "torchport" if point.dist is None else str(point.dist.name)


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, TorchportError) else f"{type(error).__name__}: {error}"
