"""A capture as an artifact of a target, in the folder of a run: what a port and a slice of one have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from torchport.capture.file_names import capture_name, captured_file
from torchport.capture.graph import Graph
from torchport.capture.recorder import Capture
from torchport.events import Steps
from torchport.files import write_atomically
from torchport.runs.changing import changing
from torchport.runs.folder import OF_A_PORT, RunFile, RunFolder
from torchport.targets.base import Artifact, LeavesBeside, Options, Target


@dataclass
class Converted:
    """The folder of a run, the target that made it, and the artifact in it."""

    files: RunFolder
    target: Target
    artifact: Artifact
    seconds: dict[str, float] = field(default_factory=dict)
    """What the steps took that made it."""

    @property
    def name(self) -> str:
        return self.files.name

    @property
    def folder(self) -> Path:
        return self.files.path


def converted(
    capture: Capture,
    target: Target,
    folder: Path,
    options: Options,
    *,
    weights: Mapping[str, torch.Tensor] | None = None,
    steps: Steps | None = None,
) -> Converted:
    """Converts a capture, with its own weights or with others under the same names."""
    steps = steps or Steps()
    about = RunFile(
        name=capture.name, target=target.name, options=options.model_dump(), project=target.project
    )
    files = RunFolder(folder, about)
    with (
        changing(folder, names_of_a_port(target)),
        steps.step("convert", "writing the code"),
    ):
        files.forget()
        capture.save(files.captures)
        given = capture.weights if weights is None else weights
        has_values = not any(tensor.is_meta for tensor in capture.weights.values())
        artifact = target.convert(capture.graph, given if has_values else None, files.project, options)
        files.write()
    return Converted(files, target, artifact, steps.seconds)


def names_of_a_port(target: Target) -> tuple[str, ...]:
    """All that converting a capture may change in the folder of a run."""
    beside = tuple(target.beside) if isinstance(target, LeavesBeside) else ()
    return (*OF_A_PORT, target.project, *beside)


def converted_manifest(
    manifest: Path, graph: Graph, target: Target, folder: Path, options: Options
) -> Converted:
    """Converts what a manifest says, without weights; what was recorded beside it of constants and buffers is kept."""
    about = RunFile(name=graph.name, target=target.name, options=options.model_dump(), project=target.project)
    files = RunFolder(folder, about)
    with changing(folder, names_of_a_port(target)):
        files.forget()
        write_atomically(files.manifest, manifest.read_bytes())
        name = capture_name(manifest, "manifest")
        recorded = None if name is None else captured_file(manifest.parent, name, "weights")
        if recorded is not None and recorded.is_file():
            write_atomically(files.captured("weights"), recorded.read_bytes())
        artifact = target.convert(graph, None, files.project, options)
        files.write()
    return Converted(files, target, artifact)
