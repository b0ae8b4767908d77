"""The place of a line of the user's code, as CI systems name it: the file below the root of the checkout, and the line.

In: the `source` strings of a report, such as `/path/file.py:12`. A root is GITHUB_WORKSPACE, if that is set, and the
current directory.
"""

from __future__ import annotations

import os
import re
import sysconfig
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from torchport.capture.source import is_of_python
from torchport.runs.report import Report

_IN_A_SENTENCE = re.compile(r"(?<![\w./])/[^\s'\"()<>,;]+\.py(?::\d+)?")
_INSTALLED = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class Place:
    """A file and a line. `file` is relative with forward slashes if it lies below the root, and else absolute."""

    file: str
    line: int | None
    is_below_root: bool

    @property
    def is_users(self) -> bool:
        """Whether the file belongs to the checkout, and not to a package that is installed in it."""
        return self.is_below_root and not any(part in _INSTALLED for part in Path(self.file).parts)

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


def place_of(source: str | None) -> Place | None:
    if not source:
        return None
    file, _, line = source.rpartition(":")
    has_line = bool(file) and line.isdecimal()
    number = int(line) if has_line else None
    path = Path(os.path.abspath(file if has_line else source))
    for root in _roots():
        if (below := _below(path, root)) is not None:
            return Place(below, number, True)
    return Place(str(path), number, False)


def shown(source: str | None) -> str | None:
    """A place as a person reads it: from the working directory on, or from the installed package on."""
    return _shown(source, tuple(_roots())) if source else None


@lru_cache(maxsize=4096)
def _shown(source: str, roots: tuple[Path, ...]) -> str:
    """`roots` are those of `place_of`; layers by the thousand come from few lines, and links are slow to follow."""
    place = place_of(source)
    assert place is not None
    parts = Path(place.file).parts
    installed = max((at for at, part in enumerate(parts) if part in _INSTALLED), default=None)
    if installed is not None and installed + 1 < len(parts):
        place = replace(place, file="/".join(parts[installed + 1 :]))
    elif not place.is_below_root and is_of_python(place.file):
        place = replace(place, file=Path(place.file).relative_to(sysconfig.get_path("stdlib")).as_posix())
    return str(place)


def with_short_places(text: str) -> str:
    """A sentence with the lines of Python that it names as a person reads them."""
    return _IN_A_SENTENCE.sub(lambda found: shown(found.group()) or found.group(), text)


def place_of_layer(report: Report, name: str, source: str | None) -> Place | None:
    """The place of `source`; if it is not known, the line that calls the layer, or else the layer around it."""
    if source:
        return place_of(source)
    layers = {layer.name: layer for layer in report.layers}
    while (layer := layers.pop(name, None)) is not None:
        if layer.source:
            return place_of(layer.source)
        name = layer.parent or ""
    return None


def place_of_culprit(report: Report) -> Place | None:
    """The line of the operation that goes wrong if it is the user's own, else the line that calls the layer."""
    divergence = report.first_divergence
    if divergence is None:
        return None
    operation = place_of(divergence.operation.source) if divergence.operation else None
    if operation is not None and operation.is_users:
        return operation
    return place_of_layer(report, divergence.layer, divergence.source) or operation


def _roots() -> list[Path]:
    workspace = os.environ.get("GITHUB_WORKSPACE")
    return [*([Path(workspace)] if workspace else []), Path.cwd()]


def _below(path: Path, root: Path) -> str | None:
    """The path from `root` to the file, even if one of them goes through a link; None if it is not below `root`."""
    if path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    with suppress(OSError, RuntimeError, ValueError):  # Some names are not names of files.
        return path.resolve().relative_to(root.resolve()).as_posix()
    return None
