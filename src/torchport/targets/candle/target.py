"""The candle target: a graph as Rust source in a cargo project."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import torch

from torchport.capture.graph import Graph, TensorMeta
from torchport.errors import UsageError
from torchport.events import Say
from torchport.files import write_atomically
from torchport.targets.base import Cached, Marker, Target, WrittenCode
from torchport.targets.candle import cache, markers, project, writer
from torchport.targets.candle.artifact import BESIDE, SOURCE, WEIGHTS, CandleArtifact, twin_of
from torchport.targets.candle.options import CandleOptions
from torchport.targets.candle.registry import OPS
from torchport.targets.candle.requirements import REQUIREMENTS
from torchport.targets.candle.weights import StoredWeights, stored_as
from torchport.trace.writing import write_tensors


class CandleTarget:
    name = "candle"
    project = "rust"
    editable = SOURCE.as_posix()
    options = CandleOptions
    requirements = REQUIREMENTS
    beside = BESIDE

    def supports(self, op: str) -> bool:
        return op in OPS

    def convert(
        self,
        graph: Graph,
        weights: Mapping[str, torch.Tensor] | None,
        folder: Path,
        options: CandleOptions,
    ) -> CandleArtifact:
        shutil.rmtree(twin_of(folder), ignore_errors=True)
        generated = _write(graph, weights, folder, options)
        if options.checks == "none":
            _write(graph, weights, twin_of(folder), options.model_copy(update={"checks": "layers"}))
        artifact = CandleArtifact(folder, graph.name)
        artifact.keep(generated)
        artifact.keep_reads(graph)
        return artifact

    def open(self, folder: Path, name: str) -> CandleArtifact:
        return CandleArtifact(folder, name)

    def write_code(
        self, graph: Graph, file: Path | None, options: CandleOptions, model: str | None
    ) -> WrittenCode:
        if model is not None and not model.isidentifier():
            raise UsageError("TP0801", f"[[model]] is {model!r}", fix="give a name of letters, digits and _")
        generated = writer.generate(
            graph, checks=options.checks, hints=options.hints, model=model, allow_random=options.allow_random
        )
        if file is not None:
            write_atomically(file, project.format_rust(generated.source))
        return WrittenCode(generated.model, generated.config, tuple(generated.todos), tuple(generated.names))

    def stored_as(self, meta: TensorMeta) -> TensorMeta:
        return stored_as(meta)

    def markers(self, text: str) -> list[Marker] | None:
        return markers.markers(text)

    def cached(self, days: float) -> list[Cached]:
        return cache.entries_of(cache.contents(), days)

    def clear_cache(self, *, everything: bool, days: float, say: Say) -> int:
        return cache.clear(everything=everything, days=days, say=say).bytes


TARGET: Target = CandleTarget()


def _write(
    graph: Graph, weights: Mapping[str, torch.Tensor] | None, folder: Path, options: CandleOptions
) -> writer.Generated:
    generated = writer.generate(
        graph, checks=options.checks, hints=options.hints, allow_random=options.allow_random
    )
    project.write_project(folder, generated, graph.name)
    if weights is not None:
        write_tensors(folder / WEIGHTS, StoredWeights(graph, weights, folder), {"format": "pt"})
    return generated
