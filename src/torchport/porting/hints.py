"""A hints file: what sizes are called where their value alone does not tell, and which axes are free."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchport.errors import SpecError

_FIX = 'write {"dims": {"hidden_size": 1024}, "dynamic": {"input_ids": [0, 1]}}'


def read_hints(path: Path | None) -> dict[str, Any]:
    """`{"dims": {"hidden_size": 1024}, "dynamic": {"input_ids": [0, 1]}}`, both of them optional."""
    if path is None:
        return {}
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecError("TP0107", f"the hints cannot be read: {error}", where=str(path), fix=_FIX) from error
    wrong = _what_is_wrong(data)
    if wrong is not None:
        raise SpecError("TP0107", f"the hints are wrong: {wrong}", where=str(path), fix=_FIX)
    return data


def _what_is_wrong(data: Any) -> str | None:
    if not isinstance(data, dict):
        return "they are not a JSON object"
    unknown = sorted(data.keys() - {"dims", "dynamic"})
    if unknown:
        return f"there is no hint called {', '.join(unknown)}"
    for name in ("dims", "dynamic"):
        if not isinstance(data.get(name, {}), dict):
            return f"{name} is not an object"
    for name, size in data.get("dims", {}).items():
        if isinstance(size, bool) or not isinstance(size, int | float) or not 0 < size < float("inf"):
            return f"the size of {name} is {size!r}"
        if not name.isidentifier():
            return f"{name!r} cannot be the name of a size"
    for name, axes in data.get("dynamic", {}).items():
        if not isinstance(axes, list) or not all(type(axis) is int and axis >= 0 for axis in axes):
            return f"the axes of {name} are {axes!r}"
    return None


def wished_axes(dynamic: str | None, hints: Mapping[str, Any]) -> str | dict[str, tuple[int, ...]] | None:
    """The free axes that were asked for: the option's before the hints'."""
    if dynamic is not None or not hints.get("dynamic"):
        return dynamic
    return {name: tuple(axes) for name, axes in hints["dynamic"].items()}
