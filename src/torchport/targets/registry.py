"""Which targets there are: those of this package by name, those of other packages by an entry point.

Another package has in its pyproject.toml: `[project.entry-points."torchport.targets"]`, `name = "module:TARGET"`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import ValidationError

from torchport.errors import ConvertError, UsageError
from torchport.targets.base import Diagnosis, Options, Requirement, Target

GROUP = "torchport.targets"
DEFAULT = "candle"
EARLIER_TARGET, EARLIER_PROJECT = "candle", "rust"
"""What every folder of a run is of that was written before such a folder said so itself."""
_OWN = {
    "candle": "torchport.targets.candle.target:TARGET",
    "marble": "torchport.targets.marble.target:TARGET",
    "torch": "torchport.targets.torch.target:TARGET",
}
_OWN_REQUIREMENTS = ("torchport.targets.candle.requirements:REQUIREMENTS",)
"""For `doctor`, which must work where torch is missing: these modules do not import it."""
_MEMBERS = ("name", "project", "editable", "options", "requirements", "supports", "convert", "open")
"""What every target has."""


def find_target(name: str) -> Target:
    """The target of that name; it is imported only now."""
    place = _places().get(name)
    if place is None:
        raise ConvertError(
            "TP0402", f"there is no target {name!r}", fix=f"the targets are: {', '.join(target_names())}"
        )
    try:
        target = EntryPoint(name, place, GROUP).load()
    except Exception as error:  # The module of another package raises whatever it likes.
        raise _not_loaded(name, place, f"{type(error).__name__}: {error}") from error
    if lacking := [member for member in _MEMBERS if not hasattr(target, member)]:
        raise _not_loaded(name, place, f"it has no {', '.join(lacking)}")
    found: Target = target
    return found


def loaded_targets() -> Iterator[tuple[str, Target]]:
    """Every target that can be loaded, with its name."""
    for name in target_names():
        try:
            yield name, find_target(name)
        except ConvertError:
            if name in _OWN:
                raise


def _not_loaded(name: str, place: str, why: str) -> ConvertError:
    return ConvertError(
        "TP0402",
        f"the target {name!r} cannot be loaded from {place}: {why}",
        where=place,
        fix="Mend the package that brings it, or remove that package.",
    )


def requirements() -> Iterator[Requirement]:
    """What the targets need on a machine; a target of another package that cannot be loaded is itself a finding."""
    for place in _OWN_REQUIREMENTS:
        module, _, attribute = place.partition(":")
        yield from getattr(import_module(module), attribute)
    for name in sorted({point.name for point in _entry_points()} - _OWN.keys()):
        try:
            yield from find_target(name).requirements
        except ConvertError as error:
            yield partial(Diagnosis, name, "missing", error.message, error.fix)


def target_names() -> list[str]:
    return sorted(_places())


def _places() -> dict[str, str]:
    """Name → `module:attribute`; nobody can take the name of a target of this package."""
    return {point.name: point.value for point in _entry_points()} | _OWN


def _entry_points() -> Iterator[EntryPoint]:
    yield from entry_points(group=GROUP)


def options_for(target: Target, given: dict[str, Any]) -> Options:
    """The target's options, checked; an option that it does not have is an error of usage."""
    try:
        return target.options.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = ", ".join(target.options.model_fields) or "none"
            message, fix = f"the target {target.name} has no option {name}", f"its options are: {known}"
        else:
            message, fix = f"{name} is {first['input']!r}", expected_value(first["type"], first["msg"])
        raise UsageError("TP0801", message, fix=fix) from error


def expected_value(kind: str, message: str) -> str:
    """What an option may be, from the words in which pydantic says what it is not."""
    start = "it is one of" if kind in ("literal_error", "enum") else "it must be"
    return f"{start} {message.removeprefix('Input should be ')}"
