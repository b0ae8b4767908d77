"""The candle target: a capture as Rust source in a cargo project, built and run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors
import torch

from torchport.capture.graph import Graph
from torchport.errors import WeightsError
from torchport.targets.base import Conversion, Progress, Repro, Unmapped
from torchport.targets.candle import build, project, repro, writer
from torchport.targets.candle.registry import OPS
from torchport.trace.writing import write_tensors

_STORED_AS = {torch.bool: torch.uint8, torch.int8: torch.int16}
"""candle reads neither; generated code expects these instead."""


class CandleTarget:
    name = "candle"

    def maps(self, op: str) -> bool:
        return op in OPS or op in _WITHIN_LAYERS

    def convert(
        self, graph: Graph, weights: Path | None, folder: Path, *, checks: str, hints: dict[str, Any]
    ) -> Conversion:
        generated = writer.generate(graph, checks=checks, hints=hints)
        files = project.write_project(folder, generated, graph.name)
        if weights is not None or not graph.weights:
            files["weights"] = folder / "model.safetensors"
            write_weights(graph, weights, files["weights"])
        todos = tuple(Unmapped(t.op, t.layer, t.source, t.reason) for t in generated.todos)
        return Conversion(folder, files, todos, {"name": graph.name, "generated": generated})

    def source(self, conversion: Conversion) -> Path:
        return conversion.folder / "src" / "model.rs"

    def build(self, conversion: Conversion, progress: Progress) -> Path:
        return build.build(conversion.folder, conversion.details["name"], progress)

    def write_repro(self, conversion: Conversion, trace: Path, limits: Sequence[float]) -> Repro:
        return repro.write_repro(conversion, trace, limits)

    def run(self, conversion: Conversion, program: Path, trace: Path, mode: str, record: Path) -> str | None:
        return build.run(program, conversion.folder, trace, mode, record)


_WITHIN_LAYERS = frozenset({"aten.lstm.input", "aten.gru.input"})
TARGET = CandleTarget()


def write_weights(graph: Graph, source: Path | None, target: Path) -> None:
    """The weights under the keys that the generated code reads, each checked against the graph."""
    tensors = {} if source is None else _checked(graph, source)
    write_tensors(target, tensors, {"format": "pt"})


def _checked(graph: Graph, source: Path) -> dict[str, torch.Tensor]:
    tensors = {}
    try:
        with safetensors.safe_open(source, framework="pt") as file:
            names = set(file.keys())
            for name, weight in graph.weights.items():
                if weight.tied_to is not None:
                    continue
                if name not in names:
                    raise WeightsError("TP0320", f"{source} has no tensor {name!r}", where=str(source))
                tensor = file.get_tensor(name)
                if tuple(tensor.shape) != weight.meta.shape:
                    raise WeightsError(
                        "TP0321",
                        f"tensor {name!r} has shape {tuple(tensor.shape)}, the model needs {weight.meta.shape}",
                        where=str(source),
                    )
                tensors[name] = tensor.to(_STORED_AS.get(tensor.dtype, tensor.dtype))
    except (safetensors.SafetensorError, FileNotFoundError) as error:
        raise WeightsError("TP0320", f"the weights cannot be read: {error}", where=str(source)) from error
    return tensors
