"""Which module or parameter of a candidate stands for which of the reference: by path, after a map."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from torchport.errors import UsageError

Map = Mapping[str, str | None] | Sequence[tuple[str, str]]
"""From the reference's paths to the candidate's: a dict of paths, which go for all below them, or a list of
(regular expression, replacement). A path that a dict maps to None is not compared."""


def renamed(paths: Iterable[str], wish: Map | None, known: Iterable[str]) -> dict[str, str | None]:
    """For each of the reference's paths the candidate's, which may not be there; None is not to be compared."""
    own = list(paths)
    if not wish:
        return {path: path for path in own}
    found = _by_dict(own, wish, set(known)) if isinstance(wish, Mapping) else _by_rules(own, wish)
    _must_be_one_to_one(found)
    return found


def _by_dict(paths: list[str], wish: Mapping[str, str | None], known: set[str]) -> dict[str, str | None]:
    for old, new in wish.items():
        if not any(_is_below(path, old) for path in paths):
            raise _useless(f"the reference has no {old!r}, which map= names")
        if new is not None and not any(_is_below(path, new) for path in known):
            raise _useless(f"the candidate has no {new!r}, which map= names for {old!r}")
    return {path: _longest(path, wish) for path in paths}


def _longest(path: str, wish: Mapping[str, str | None]) -> str | None:
    old = max((old for old in wish if _is_below(path, old)), key=len, default=None)
    if old is None:
        return path
    new = wish[old]
    return None if new is None else f"{new}{path[len(old) :]}"


def _is_below(path: str, parent: str) -> bool:
    return path == parent or path.startswith(f"{parent}.")


def _by_rules(paths: list[str], rules: Sequence[tuple[str, str]]) -> dict[str, str | None]:
    found: dict[str, str | None] = {path: path for path in paths}
    for pattern, replacement in rules:
        try:
            changed = {path: re.sub(pattern, replacement, str(now)) for path, now in found.items() if path}
        except (re.error, IndexError) as error:
            raise _useless(f"{pattern!r} to {replacement!r} in map= is no rule: {error}") from error
        if all(found[path] == now for path, now in changed.items()):
            raise _useless(f"{pattern!r} in map= changes no path of the reference")
        found |= changed
    return found


def _must_be_one_to_one(found: Mapping[str, str | None]) -> None:
    taken: dict[str, str] = {}
    for old, new in found.items():
        if new is not None and taken.setdefault(new, old) != old:
            raise _useless(f"map= gives {taken[new]!r} and {old!r} the same name {new!r}")


def _useless(message: str) -> UsageError:
    return UsageError("TP0801", message, fix="map= goes from the reference's paths to the candidate's")
