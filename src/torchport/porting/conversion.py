"""A capture as an artifact of a target, in the folder of a run: what a port and a slice of one have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

from torchport.capture.file_names import capture_name, captured_file
from torchport.capture.graph import Graph
from torchport.capture.recorder import Capture
from torchport.events import Steps
from torchport.files import write_atomically
from torchport.porting import overwriting
from torchport.runs import own_work
from torchport.runs.changing import changing
from torchport.runs.folder import OF_A_PORT, RunFile, RunFolder
from torchport.targets.base import Artifact, Options, Target, beside_of


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
        changing(folder, names_of_a_port(target, folder)),
        steps.step("convert", "writing the code"),
        _in_place_of_another(files, target),
    ):
        capture.save(files.captures)
        given = capture.weights if weights is None else weights
        has_values = not any(tensor.is_meta for tensor in capture.weights.values())
        artifact = target.convert(capture.graph, given if has_values else None, files.project, options)
        files.write()
    return Converted(files, target, artifact, steps.seconds)


def names_of_a_port(target: Target, folder: Path) -> tuple[str, ...]:
    """All that converting a capture may change in the folder of a run, where another port may be now."""
    return tuple(
        dict.fromkeys((*OF_A_PORT, target.project, *beside_of(target), *overwriting.names_of_other(folder)))
    )


@contextmanager
def _in_place_of_another(files: RunFolder, target: Target) -> Iterator[None]:
    """Within, an artifact is written; what the folder has of an earlier port is gone by then."""
    overwriting.remove_other(files.path, target)
    with own_work.noted_as_written(files):
        files.forget()
        yield


def converted_manifest(
    manifest: Path, graph: Graph, target: Target, folder: Path, options: Options
) -> Converted:
    """Converts what a manifest says, without weights; what was recorded beside it of constants and buffers is kept."""
    about = RunFile(name=graph.name, target=target.name, options=options.model_dump(), project=target.project)
    files = RunFolder(folder, about)
    with changing(folder, names_of_a_port(target, folder)), _in_place_of_another(files, target):
        write_atomically(files.manifest, manifest.read_bytes())
        name = capture_name(manifest, "manifest")
        recorded = None if name is None else captured_file(manifest.parent, name, "weights")
        if recorded is not None and recorded.is_file():
            write_atomically(files.captured("weights"), recorded.read_bytes())
        artifact = target.convert(graph, None, files.project, options)
        files.write()
    return Converted(files, target, artifact)
