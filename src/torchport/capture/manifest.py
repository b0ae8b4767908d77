"""The manifest file: a Graph with its calls as versioned JSON, and back.

`schema.py` has the format, `docs/manifest.md` describes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from torchport.capture import graph as g
from torchport.capture.consistency import faults
from torchport.capture.plan import make_plan
from torchport.capture.schema import VERSION, Manifest
from torchport.errors import ManifestError
from torchport.files import write_atomically


def write_manifest(path: Path, graph: g.Graph, *, extra: dict[str, Any]) -> None:
    data = Manifest.of(graph, make_plan(graph), extra).json_object()
    write_atomically(path, json.dumps(data, indent=1, allow_nan=False).encode())


def read_manifest(path: Path) -> tuple[g.Graph, dict[str, Any]]:
    """The graph of a manifest, and the whole JSON object."""
    data = _load(path)
    version = data.get("schema")
    if type(version) is not int or version < 1:
        raise ManifestError("TP0305", f"the manifest's schema version is {version!r}", where=str(path))
    if version > VERSION:
        raise ManifestError(
            "TP0304",
            f"the manifest is of schema {version}; this torchport reads up to {VERSION}",
            where=str(path),
            fix="upgrade torchport, or record the model again with this version",
        )
    graph = _decoded(data, path)
    for place, wrong in faults(graph):
        raise _invalid(f"{place}: {wrong}", path)
    return graph, data


def _decoded(data: dict[str, Any], path: Path) -> g.Graph:
    try:
        return Manifest.model_validate(data).graph()
    except RecursionError as error:
        raise _invalid("its arguments: they are nested too deeply", path) from error
    except ValidationError as error:
        first = error.errors()[0]
        raise _invalid(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", path) from error


def _invalid(fault: str, path: Path) -> ManifestError:
    return ManifestError(
        "TP0305", f"the manifest is wrong at {fault}", where=str(path), fix="record the model again"
    )


def _load(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ManifestError("TP0301", f"there is no manifest {path}", where=str(path)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError("TP0302", f"the manifest cannot be read: {error}", where=str(path)) from error
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        code, fault = ("TP0303", "ends too early") if _is_cut(text, error) else ("TP0302", "is not JSON")
        raise ManifestError(code, f"the manifest {fault}: {error}", where=f"{path}:{error.lineno}") from error
    except RecursionError as error:
        raise ManifestError("TP0302", "the manifest is nested too deeply", where=str(path)) from error
    if not isinstance(data, dict):
        raise ManifestError("TP0305", "the manifest is not a JSON object", where=str(path))
    return data


def _is_cut(text: str, error: json.JSONDecodeError) -> bool:
    """Whether a text that is not JSON may be the beginning of JSON."""
    if not text.strip():
        return True
    if not text.lstrip().startswith("{"):
        return False
    rest = text[error.pos :].strip()
    begun = any(word.startswith(rest) for word in ("true", "false", "null", "-"))
    escape = error.msg.startswith(("Invalid \\", "Invalid control")) and error.pos >= len(text) - 6
    return begun or escape or len(rest) <= 1 or error.msg.startswith("Unterminated string")
