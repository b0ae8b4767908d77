"""Where the weights of a port came from: a note beside the file, so that a proof can go back to the checkpoint itself.

Golden values that are computed with the file that the port loads say nothing of how that file was made. So they are
computed with what the checkpoint has under the model's own names, without rules, if it has all parameters under them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from torchport.capture.graph import Graph, TensorMeta
from torchport.capture.weights import SelectedWeights
from torchport.errors import TorchportError
from torchport.files import write_atomically
from torchport.trace.writing import write_tensors
from torchport.weights.checkpoint import Checkpoint, opened
from torchport.weights.extraction import same
from torchport.weights.loaded import LoadedWeights
from torchport.weights.matching import Match, converted, match
from torchport.weights.rules import Rules
from torchport.weights.stored import InMemory, Stored
from torchport.weights.views import as_tensor

_NAMED = 3
_UNPROVEN = "that each weight is the one that the model has under its name is not proven"


class OneFile(BaseModel):
    """A file of the checkpoint as it was."""

    model_config = ConfigDict(frozen=True)
    path: Path
    bytes: int
    mtime_ns: int

    @classmethod
    def of(cls, path: Path) -> OneFile:
        facts = path.stat()
        return cls(path=path.resolve(), bytes=facts.st_size, mtime_ns=facts.st_mtime_ns)

    def is_as_it_was(self) -> bool:
        try:
            return OneFile.of(self.path) == self
        except OSError:
            return False


class Origin(BaseModel):
    """What weights were extracted from: the paths that were given, all files of these, and the prefixes of names."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, serialize_by_alias=True)
    schema_version: Literal[1] = Field(default=1, alias="schema")
    given: tuple[Path, ...]
    files: tuple[OneFile, ...]
    prefixes: tuple[str, ...]

    @classmethod
    def of(cls, given: Sequence[Path], files: Sequence[Path], prefixes: Sequence[str]) -> Origin:
        return cls(
            given=tuple(path.resolve() for path in given),
            files=tuple(OneFile.of(path) for path in files),
            prefixes=tuple(prefixes),
        )

    def write(self, weights: Path) -> None:
        write_atomically(_note_beside(weights), self.model_dump_json(indent=1) + "\n")


def _note_beside(weights: Path) -> Path:
    return weights.with_name(f"{weights.name}.origin.json")


def origin_of(weights: Path) -> Origin | None:
    """What a file of weights was extracted from; None if nothing says so."""
    try:
        return Origin.model_validate_json(_note_beside(weights).read_bytes())
    except (OSError, ValidationError):
        return None


class NamedWeights(LoadedWeights):
    """The weights of a port, but those that a checkpoint has under the model's own names as they are there."""

    def __init__(self, path: Path, graph: Graph, own: Mapping[str, Stored]):
        super().__init__(path, graph)
        self._own = own

    def read(self, name: str) -> torch.Tensor:
        head = self._graph.weights[name].tied_to or name
        if head not in self._own:
            return super().read(name)
        return as_tensor(self._own[head])

    def save(self, path: Path) -> None:
        heads = [name for name in self.names() if self._graph.weights[name].tied_to is None]
        path.unlink(missing_ok=True)
        write_tensors(path, SelectedWeights(self, heads), {"schema": "1"})


@contextmanager
def independent(path: Path, graph: Graph) -> Iterator[tuple[LoadedWeights, str | None]]:
    """The weights that golden values are computed with, and what that leaves unproven or has found, if anything."""
    loaded, origin = LoadedWeights(path, graph), origin_of(path)
    if origin is None:
        why = f"nothing says which checkpoint {path.name} was extracted from"
        yield loaded, f"{_UNPROVEN}: {why}"
        return
    if changed := [file.path for file in origin.files if not file.is_as_it_was()]:
        yield loaded, f"{_UNPROVEN}: the checkpoint {changed[0].name} is not there any more, or was changed"
        return
    with _reopened(origin) as checkpoint:
        own = {} if checkpoint is None else _by_own_names(graph, checkpoint, origin.prefixes)
        if not own:
            why = (
                "the checkpoint does not have every parameter under the model's own names and in their shapes"
            )
            yield loaded, f"{_UNPROVEN}: {why}; compare the model's outputs with known ones"
            return
        others = [name for name, stored in own.items() if not same(stored, InMemory(loaded.read(name)))]
        if not others:
            yield loaded, None
            return
        yield NamedWeights(path, graph, own), _contradiction(others, len(own), checkpoint)


def _contradiction(others: Sequence[str], count: int, checkpoint: Checkpoint | None) -> str:
    names = ", ".join(others[:_NAMED]) + (", …" if len(others) > _NAMED else "")
    at = "the checkpoint" if checkpoint is None else checkpoint.files[0].name
    return (
        f"{len(others)} of {count} weights that the port loads are not what {at} has under their names: {names}; "
        "the golden values are those of the checkpoint, without rules"
    )


@contextmanager
def _reopened(origin: Origin) -> Iterator[Checkpoint | None]:
    try:
        opening = opened(origin.given)
        checkpoint = opening.__enter__()
    except TorchportError:
        yield None
        return
    try:
        yield checkpoint
    finally:
        opening.__exit__(None, None, None)


def _by_own_names(graph: Graph, checkpoint: Checkpoint, prefixes: tuple[str, ...]) -> dict[str, Stored]:
    """The tensors that `load_state_dict` would take; none if it would lack a parameter, or find another shape."""
    for tried in dict.fromkeys([prefixes, ()]):
        try:
            found = match(graph, checkpoint, Rules(), tried)
        except TorchportError:
            continue
        if not found.others and (own := _complete(found)):
            return own
    return {}


def _complete(found: Match) -> dict[str, Stored]:
    own: dict[str, Stored] = {}
    for name, one in found.wanted.items():
        entry = found.found[name].entry if name in found.found else None
        fits = entry is not None and entry.stored.form.shape == one.form.shape
        if entry is not None and fits and one.kind != "constant":
            own[name] = converted(name, one.form, entry, _as_it_is)
        elif one.kind == "parameter":
            return {}
    return own


def _as_it_is(meta: TensorMeta) -> TensorMeta:
    return meta
