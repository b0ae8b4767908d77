"""A target for tests: its artifacts give the golden values back, or what a test makes of them."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from torchport.capture.graph import Graph
from torchport.errors import UsageError
from torchport.events import Say
from torchport.targets.base import Artifact, Mode, Options, Repro, SourceMap, Stopped, Todo
from torchport.trace.plan import returned_key

Values = dict[str, torch.Tensor]


class EchoOptions(Options):
    checks: str = "layers"
    hints: dict[str, int] = {}

    @property
    def records_operations(self) -> bool:
        return self.checks == "ops"


@dataclass
class EchoTarget:
    """Its fields say what its artifacts do."""

    name: str = "echo"
    project: str = "echoed"
    editable: str | None = None
    options: type[Options] = EchoOptions
    requirements: tuple = ()
    change: Callable[[str, Values], Values] = field(default=lambda mode, values: values)
    stopped: Stopped | None = None
    todos: tuple[Todo, ...] = ()
    prepared: int = 0
    given: Options | None = None

    def supports(self, op: str) -> bool:
        return True

    def convert(
        self, graph: Graph, weights: Mapping[str, torch.Tensor] | None, folder: Path, options: Options
    ) -> "EchoArtifact":
        folder.mkdir(parents=True, exist_ok=True)
        self.given = options
        if weights is not None:
            own = {name: weights[name].clone() for name, w in graph.weights.items() if w.tied_to is None}
            save_file(own, folder / "model.safetensors")
        return EchoArtifact(self, folder, self.todos)

    def open(self, folder: Path, name: str) -> "EchoArtifact":
        return EchoArtifact(self, folder)


@dataclass
class EchoArtifact:
    target: EchoTarget
    folder: Path
    todos: tuple[Todo, ...] = ()

    @property
    def stored(self) -> Path | None:
        return self.folder / "model.safetensors"

    def sources(self, graph: Graph) -> SourceMap | None:
        return None

    def edits(self) -> tuple[str, ...]:
        return ()

    def variants(self, edited: Artifact) -> Iterator[bool]:
        yield False

    def prepare(self, say: Say) -> None:
        self.target.prepared += 1

    def run(self, golden: Path, mode: Mode, record: Path) -> Stopped | None:
        with safe_open(golden, "pt") as file:
            metadata = file.metadata()
        aliases, root = json.loads(metadata["aliases"]), metadata["root"]
        values = load_file(golden)
        handed_on = {key: values[known].clone() for key, known in aliases.items() if "<" not in key}
        changed = self.target.change(mode, {**values, **handed_on})
        outputs = [key for key in handed_on.keys() | values.keys() if re.fullmatch(f"{root}(:\\d+)?", key)]
        for index, key in enumerate(sorted(outputs)):
            known = (values | handed_on)[key] if mode == "lockstep" else changed.get(key)
            if known is not None:
                changed.setdefault(returned_key(root, index), known.clone())
        save_file(changed, record, {"returned": json.dumps({"number": len(outputs)})})
        return self.target.stopped

    def write_repro(self, golden: Path, limits: Sequence[float]) -> Repro:
        raise UsageError("TP0801", "what gives golden values back cannot be run by others")


TARGET = EchoTarget()
