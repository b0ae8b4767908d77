"""The names of the files that a capture is saved to: `NAME_manifest.json`, `NAME_trace.safetensors`, …"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Kind = Literal["manifest", "trace", "truth", "weights"]


def captured_file(folder: Path, name: str, kind: Kind) -> Path:
    """A file of the capture called `name` in a folder."""
    return folder / f"{name}{_ending(kind)}"


def capture_name(file: Path | str, kind: Kind) -> str | None:
    """The name of the capture whose file of that kind this is; None if it is no such file."""
    name = Path(file).name
    return name.removesuffix(_ending(kind)) if name.endswith(_ending(kind)) else None


def capture_names(folder: Path) -> set[str]:
    """The names of all captures in a folder."""
    return {name for file in folder.glob("*") if (name := capture_name(file, "manifest")) is not None}


def _ending(kind: Kind) -> str:
    return f"_{kind}.{'json' if kind == 'manifest' else 'safetensors'}"
