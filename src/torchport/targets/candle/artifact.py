"""A generated cargo project as an artifact: what was generated, what the user made of it, built and run.

Beside the project, `generated` has the source as it was written and the facts about it. A project without checks cannot
be watched, so `checked` has the same code with them, which is what the proof runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from torchport.capture.graph import Graph
from torchport.errors import BuildError, UsageError
from torchport.events import Say
from torchport.files import write_atomically
from torchport.targets.base import Artifact, Mode, Repro, SourceMap, Stopped, Timing, Todo
from torchport.targets.candle import build, edits, repro, running, rust, sources, streaming
from torchport.targets.candle.weights import StoredWeights
from torchport.targets.candle.writer import Generated
from torchport.targets.hunks import edited_lines, hunks
from torchport.trace.writing import write_tensors

SOURCE = Path("src") / "model.rs"
PROGRAM = Path("src") / "main.rs"
WEIGHTS = "model.safetensors"
CONFIG = "config.json"
EDITABLE = (SOURCE, PROGRAM, Path("src") / "lib.rs", Path("Cargo.toml"), Path(CONFIG))
"""The texts of a project that are a user's to edit, if only to see what comes of it."""
_FACTS = "facts.json"
_READS = "reads.json"
_IN_BLOCKS = frozenset(("torch.nn.modules.linear.Linear", "torch.nn.modules.sparse.Embedding"))
"""The classes that become layers of the runtime crate which can hold their weight in blocks."""


class Facts(BaseModel):
    """What was known when the source was generated and cannot be read from it again."""

    model_config = ConfigDict(frozen=True)

    model: str
    """The name of the root struct."""
    inputs: tuple[str, ...]
    outputs: int
    is_plain: bool
    """Whether the root takes and gives one tensor, so that its `forward` is that of candle's `Module`."""
    config: dict[str, int | float | list[int | float]]
    structs: dict[str, str]
    """Key of a module of the graph → its struct."""
    todos: tuple[Todo, ...] = ()
    """What could not be expressed, and is in the source as a TODO until somebody writes it."""

    @classmethod
    def of(cls, generated: Generated) -> Facts:
        return cls(
            model=generated.model,
            inputs=tuple(generated.inputs),
            outputs=generated.outputs,
            is_plain=generated.is_plain,
            config=generated.config,
            structs=generated.structs,
            todos=tuple(generated.todos),
        )


@dataclass
class CandleArtifact:
    folder: Path
    name: str
    program: Path | None = field(default=None, repr=False)
    """Where the program is, once it is built."""
    data: Path | None = field(default=None, repr=False)
    """Where config and weights are, if they are not those of the project."""
    weights: Path | None = field(default=None, repr=False)
    """The file with the weights, if it is another."""

    @property
    def source(self) -> Path:
        return self.folder / SOURCE

    @property
    def todos(self) -> tuple[Todo, ...]:
        """Once the source is edited, nobody knows which of them are done; the program stops at one that is not."""
        facts = self.facts
        return () if facts is None or self._edits_of(SOURCE) else facts.todos

    @property
    def twin(self) -> Path:
        """Where the same code with checks is, if the project itself has none."""
        return twin_of(self.folder)

    @property
    def watched(self) -> Path:
        """The project that shows what it computes."""
        return self.twin if self.twin.is_dir() else self.folder

    @property
    def stored(self) -> Path | None:
        return self.weights or (self.data or self.watched) / WEIGHTS

    @property
    def facts(self) -> Facts | None:
        """None for a project of an earlier version, which did not keep them."""
        try:
            return Facts.model_validate_json((_generated(self.folder) / _FACTS).read_bytes())
        except (OSError, ValidationError):
            return None

    def keep(self, generated: Generated) -> None:
        """Remembers the source as it was generated, and the facts about it."""
        place = _generated(self.folder)
        for file in EDITABLE:
            write_atomically(place / file.name, (self.folder / file).read_bytes())
        write_atomically(place / _FACTS, Facts.of(generated).model_dump_json(indent=1) + "\n")

    def keep_reads(self, graph: Graph) -> None:
        """Remembers which weights each module reads, for models that are larger than memory."""
        write_atomically(
            _generated(self.folder) / _READS, json.dumps(streaming.reads(graph), indent=1) + "\n"
        )

    def texts(self, file: Path = SOURCE) -> tuple[str, str] | None:
        """A file as it was generated and as it is now, if both are known."""
        before, now = _generated(self.folder) / file.name, self.folder / file
        if not before.is_file() or not now.is_file():
            return None
        return before.read_text(encoding="utf-8"), now.read_text(encoding="utf-8")

    def sources(self, graph: Graph) -> SourceMap | None:
        if not self.source.is_file():
            return None
        facts = self.facts
        found = sources.read(self.source, graph, None if facts is None else facts.structs)
        texts = self.texts()
        return found if texts is None else replace(found, edited=edited_lines(*texts))

    def edits(self) -> tuple[str, ...]:
        return tuple(hunk for file in EDITABLE for hunk in self._edits_of(file))

    def _edits_of(self, file: Path) -> tuple[str, ...]:
        texts = self.texts(file)
        return () if texts is None else hunks(*texts, file.name)

    def variants(self, edited: Artifact) -> Iterator[bool]:
        texts = edited.texts() if isinstance(edited, CandleArtifact) else None
        generated = self.source.read_text(encoding="utf-8")
        for text in edits.carried(edits.edits_of(*texts), generated) if texts else ():
            self.source.write_text(text, encoding="utf-8")
            yield True
        self.source.write_text(generated, encoding="utf-8")
        yield False

    def prepare(self, say: Say) -> None:
        self._must_be_its_twin()
        self.program = build.build(self.watched, self.name, say)

    def run(self, golden: Path, mode: Mode, record: Path) -> Stopped | None:
        if self.program is None:
            raise BuildError(
                "TP0502", f"{self.folder} was not built before it is run", where=str(self.folder)
            )
        stopped = running.run(self.program, self._files(), golden, mode, record, self.name)
        if stopped is None or stopped.todo is None:
            return stopped
        return stopped.model_copy(update={"todo": self._as_generated(stopped.todo)})

    def _files(self) -> running.Files:
        place = self.data or self.watched
        weights, reads = self.weights or place / WEIGHTS, _generated(self.folder) / _READS
        is_streamed = self.weights is None and reads.is_file() and streaming.is_worth_it(weights)
        return running.Files(weights, place / CONFIG, reads if is_streamed else None)

    def _as_generated(self, reached: Todo) -> Todo:
        """The TODO with its layer and line, as it was generated; as the program names it if that is not known."""
        facts = self.facts
        known = () if facts is None else facts.todos
        alike = (todo for todo in known if todo.op == reached.op and (todo.source or "") in reached.reason)
        return next(alike, reached)

    def resized(
        self, sizes: Mapping[str, Any], graph: Graph, weights: Mapping[str, torch.Tensor], place: Path
    ) -> CandleArtifact | None:
        named = {rust.snake(name): value for name, value in sizes.items()}
        config = json.loads((self.watched / CONFIG).read_text(encoding="utf-8"))
        others = {name: named[name] for name in config if named.get(name, config[name]) != config[name]}
        if not others:
            return None
        write_atomically(place / CONFIG, json.dumps({**config, **others}, indent=2) + "\n")
        write_tensors(place / WEIGHTS, StoredWeights(graph, weights, place), {"format": "pt"})
        return self.at_sizes(place)

    def at_sizes(self, place: Path) -> CandleArtifact:
        return replace(self, data=place)

    def on_weights(self, file: Path) -> CandleArtifact:
        return replace(self, weights=file)

    @property
    def code_digest(self) -> str:
        return "" if self.program is None else hashlib.sha256(self.program.read_bytes()).hexdigest()

    def multiplies_blocks(self, graph: Graph, weight: str) -> bool:
        readers = [module for module in graph.modules.values() if weight in module.params.values()]
        return all(reader.type in _IN_BLOCKS and len(reader.nodes) == 1 for reader in readers)

    def timed(self, golden: Path, threads: int, budget: float) -> Timing | None:
        files = self._files()
        if self.program is None or files.reads is not None:
            return None
        return running.timed(self.program, files, golden, threads, budget)

    def write_repro(self, golden: Path, limits: Sequence[float]) -> Repro:
        facts = self.facts
        if facts is None:
            message = (
                f"{self.folder} was generated by an earlier version, which did not keep what a test needs"
            )
            raise UsageError("TP0801", message, fix="port the model again")
        project = repro.Project(self.folder, self.name, facts.model, facts.inputs, facts.outputs)
        return repro.write_repro(project, facts.config, golden, limits, is_plain=facts.is_plain)

    def _must_be_its_twin(self) -> None:
        """An edit would be in the project that ships and not in the one that is proven."""
        for file in EDITABLE if self.twin.is_dir() else ():
            if self._edits_of(file):
                raise UsageError(
                    "TP0804",
                    f"{self.folder / file} was edited, and the project has no checks by which it could be proven",
                    where=str(self.folder / file),
                )


BESIDE = ("checked", "generated")
"""The folders beside that of the project."""


def twin_of(folder: Path) -> Path:
    return folder.with_name(BESIDE[0])


def _generated(folder: Path) -> Path:
    return folder.with_name(BESIDE[1])
