"""The warnings that torch gives while it compiles: they are notes of a report, and not lines between those of a log."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import torch

_OWN = tuple(f"{place}/" for place in (Path(torch.__file__).parent, Path(__file__).parents[1]))
"""The folders of torch and of torchport, on whose lines torch may put the blame for a warning."""


@contextmanager
def kept_as_notes(notes: list[str]) -> Iterator[None]:
    """Within, a warning of torch becomes a note, once; warnings of others are shown as ever."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def keep(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if not filename.startswith(_OWN):
                show(message, category, filename, lineno, file, line)
            elif (note := f"torch warns: {' '.join(str(message).split())}") not in notes:
                notes.append(note)

        warnings.showwarning = keep
        yield
