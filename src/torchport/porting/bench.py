"""The bench of a port: a slice of the model as a small port of its own, made by the same target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from torchport.capture.recorder import Capture
from torchport.errors import ConvertError
from torchport.events import Say, Steps
from torchport.explain.bench import Attempt
from torchport.parity.rulebook import NOISE_FLOOR
from torchport.porting import proof, recording
from torchport.porting.conversion import Converted, converted
from torchport.targets.base import Artifact, Options, Repro, Target
from torchport.targets.registry import options_for


@dataclass(frozen=True)
class PortTrial:
    """A slice as a port, on which the user's edits can be made."""

    port: Converted
    edited: Artifact
    """The artifact of the whole model, in which the user has made the edits."""

    @property
    def folder(self) -> Path:
        return self.port.folder

    def variants(self) -> Iterator[bool]:
        return self.port.artifact.variants(self.edited)

    def run(self) -> Attempt:
        files = self.port.files
        graph = recording.sound(files, self.port.artifact.stored)
        report = proof.prove(self.port, files, graph, NOISE_FLOOR, Steps())
        return Attempt(report, files.record("chained"))

    def write_repro(self, limits: Sequence[float]) -> Repro:
        return self.port.artifact.write_repro(self.port.files.captured("trace"), limits)


@dataclass(frozen=True)
class PortBench:
    target: Target
    artifact: Artifact
    say: Say

    @property
    def edits(self) -> tuple[str, ...]:
        return self.artifact.edits()

    @property
    def editable(self) -> str | None:
        file = self.target.editable
        return None if file is None else f"{self.target.project}/{file}"

    def set_up(
        self, part: Capture, stored: Mapping[str, torch.Tensor], folder: Path, *, operations: bool
    ) -> PortTrial:
        port = converted(part, self.target, folder, self._options(operations), weights=stored)
        if port.artifact.todos:
            names = ", ".join(todo.op for todo in port.artifact.todos)
            raise ConvertError("TP0401", f"nothing maps {names} when it stands alone")
        return PortTrial(port, self.artifact)

    def _options(self, operations: bool) -> Options:
        options = options_for(self.target, {})
        return options.watching_operations() if operations else options
