"""The folder of a debugging run: one tree with an index, in which every file is whole or not there at all."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import torch

from torchport.errors import DiskError
from torchport.files import write_atomically

_LOG = logging.getLogger("torchport.debug")
FOLDERS = (
    "fx_graphs",
    "aot_graphs",
    "inductor_ir",
    "inductor_kernels",
    "statistics",
    "visualizations",
    "repros",
    "reports",
)
INDEX = "index.json"
KIND = "torchport-debug"
"""What an index says that it is of, so that nothing else is ever taken for a run and deleted."""


@dataclass(frozen=True)
class Artifact:
    path: str
    """From the folder of the run."""
    what: str
    """What it is, for a reader: "graph before AOTAutograd"."""
    graph: str | None = None


@dataclass
class ArtifactTree:
    """The artifacts of one run. If the disk refuses one, that is noted, and the run goes on."""

    path: Path
    name: str
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    artifacts: list[Artifact] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What could not be written, and why."""
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    _together: int = 0
    """How many blocks are open whose files the index gets at their end."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """Files that are written within are noted in the index at the end, all at once."""
        with self._lock:
            self._together += 1
        try:
            yield
        finally:
            with self._lock:
                self._together -= 1
                self.write_index()

    def write(
        self, folder: str, file: str, data: str | bytes, what: str, graph: str | None = None
    ) -> Path | None:
        """Writes a file and notes it in the index; None if the disk refuses it."""
        if folder not in FOLDERS:
            raise KeyError(f"{folder} is no folder of a debugging run")
        path = self.path / folder / file
        with self._lock:
            try:
                write_atomically(path, data)
            except DiskError as error:
                self.add_problem(error.message)
                return None
            self.note(path, what, graph)
        return path

    def note(self, path: Path, what: str, graph: str | None = None) -> None:
        """Notes a file in the tree that somebody else has written."""
        with self._lock:
            known = path.relative_to(self.path).as_posix()
            self.artifacts = [one for one in self.artifacts if one.path != known]
            self.artifacts.append(Artifact(known, what, graph))
            self.write_index()

    def write_index(self) -> None:
        with self._lock:
            if self._together:
                return
            content = {
                "schema": 1,
                "kind": KIND,
                "name": self.name,
                "created": self.created,
                "torch": torch.__version__,
                "artifacts": [asdict(one) for one in self.artifacts],
                "problems": self.problems,
            }
            try:
                write_atomically(self.path / INDEX, json.dumps(content, indent=2) + "\n")
            except DiskError as error:
                self.add_problem(error.message)

    def add_problem(self, problem: str) -> None:
        """Notes what is missing in the tree, and why; the first time also in the log."""
        with self._lock:
            if problem not in self.problems:
                self.problems.append(problem)
                _LOG.warning("%s", problem)
