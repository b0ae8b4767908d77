"""A target for tests: its ports give the golden values back, or what a test makes of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from torchport.capture.graph import Graph
from torchport.targets.base import Conversion, Progress, Unmapped

Values = dict[str, torch.Tensor]


class EchoTarget:
    name = "echo"

    def __init__(self) -> None:
        self.change: Callable[[str, Values], Values] = lambda mode, values: values
        self.complaint: str | None = None
        self.unmapped: tuple[Unmapped, ...] = ()
        self.built = 0
        self.options: dict[str, Any] = {}

    def maps(self, op: str) -> bool:
        return True

    def convert(
        self, graph: Graph, weights: Path | None, folder: Path, *, checks: str, hints: dict[str, Any]
    ) -> Conversion:
        folder.mkdir(parents=True, exist_ok=True)
        self.options = {"checks": checks, "hints": hints}
        files = {}
        if weights is not None:
            files["weights"] = folder / "model.safetensors"
            save_file(load_file(weights), files["weights"])
        return Conversion(folder, files, self.unmapped, {"name": graph.name})

    def source(self, conversion: Conversion) -> Path | None:
        return None

    def build(self, conversion: Conversion, progress: Progress) -> Path:
        self.built += 1
        return conversion.folder / "program"

    def run(self, conversion: Conversion, program: Path, trace: Path, mode: str, record: Path) -> str | None:
        record.parent.mkdir(exist_ok=True)
        with safe_open(trace, "pt") as file:
            aliases = json.loads(file.metadata()["aliases"])
        values = load_file(trace)
        handed_on = {key: values[known].clone() for key, known in aliases.items() if "<" not in key}
        save_file(self.change(mode, {**values, **handed_on}), record)
        return self.complaint


TARGET = EchoTarget()
