"""What an explanation needs of a candidate: a bench on which a slice of the model is run as the candidate runs it.

A port, of whatever target, and a candidate in PyTorch have one each. Nothing here knows how either works.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from torchport.capture.recorder import Capture
from torchport.runs.report import Report
from torchport.targets.base import Repro


@dataclass(frozen=True)
class Attempt:
    """What came of running a slice: the verdict on it, and the trace of what it computes without guidance."""

    report: Report
    chained: Path


class Trial(Protocol):
    """A slice that is set up to be run."""

    @property
    def folder(self) -> Path: ...

    def variants(self) -> Iterator[bool]:
        """Changes the slice as the user has changed the whole, one way after the other: True for each way.

        The last is False: the slice as it was set up.
        """
        ...

    def run(self) -> Attempt:
        """Raises a TorchportError if the slice cannot be run."""
        ...

    def write_repro(self, limits: Sequence[float]) -> Repro: ...


class Bench(Protocol):
    @property
    def edits(self) -> tuple[str, ...]:
        """How the user has changed the candidate's source, as hunks of a unified diff."""
        ...

    @property
    def editable(self) -> str | None:
        """The file of a slice that a user may edit, from the folder of the slice; None if there is none."""
        ...

    def set_up(
        self, part: Capture, stored: Mapping[str, torch.Tensor], folder: Path, *, operations: bool
    ) -> Trial:
        """The slice as the candidate runs it, with the weights that it loads; with `operations`, each is watched.

        Raises a TorchportError if the candidate cannot run it.
        """
        ...

    def say(self, text: str) -> None: ...
