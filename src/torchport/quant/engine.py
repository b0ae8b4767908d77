"""Many measurements, independent of each other: several at a time here, or on other machines by Ray; resumable.

What was measured is kept in the folder of the run under a name that follows from everything it depends on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from pydantic import BaseModel, ValidationError

from torchport.events import Message, Watcher, ignore
from torchport.fan_out import Engine, fan_out
from torchport.files import write_atomically
from torchport.porting.port import Port
from torchport.quant.measuring import Subject, known_importance, measure, subject_of, write_blocks
from torchport.quant.results import SchemeDrift
from torchport.quant.storing import Importance, digest_of

MEASURED = "measured"
"""The folder of results in that of a run. It stays when another port takes the place: its results have other names."""
VERSION = 4
"""Of what is kept: results of another are measured again."""


@dataclass(frozen=True)
class Task:
    """One choice of formats to be measured, as it can be handed to another machine."""

    folder: str
    scheme: str
    mix: tuple[tuple[str, str], ...]
    by_importance: bool
    by_layer: bool
    keep: str | None = None


def run_tasks(
    tasks: Sequence[Task],
    subject: Subject,
    importance: Importance,
    *,
    engine: Engine = "local",
    jobs: int | None = None,
    watch: Watcher = ignore,
) -> list[SchemeDrift]:
    """The results in the order of the tasks; those that are known are not measured again."""
    basis = _basis(subject)
    places = [_place(task, basis) for task in tasks]
    known = [_kept(place, task, subject, importance) for place, task in zip(places, tasks, strict=True)]
    open_ = [index for index, result in enumerate(known) if result is None]
    found = _run([tasks[index] for index in open_], subject, importance, engine, jobs)
    for done, (index, result) in enumerate(found, start=1):
        _keep(places[open_[index]], tasks[open_[index]], result)
        known[open_[index]] = result
        watch(Message(f"{tasks[open_[index]].scheme}: {done} of {len(open_)}"))
    return [result for result in known if result is not None]


def _run(
    tasks: Sequence[Task], subject: Subject, importance: Importance, engine: Engine, jobs: int | None
) -> Iterator[tuple[int, SchemeDrift]]:
    if engine == "ray":  # Whose workers open the folder themselves.
        for place, text in fan_out(_opened_and_measured, tasks, engine=engine):
            yield place, SchemeDrift.model_validate_json(text)
        return
    yield from fan_out(partial(_measured, subject=subject, importance=importance), tasks, jobs=jobs)


def _measured(task: Task, subject: Subject, importance: Importance) -> SchemeDrift:
    keep = None if task.keep is None else Path(task.keep)
    return measure(
        subject,
        task.scheme,
        dict(task.mix),
        importance,
        by_importance=task.by_importance,
        keep=keep,
        by_layer=task.by_layer,
    )


def _opened_and_measured(task: Task) -> str:
    """What a worker does, which has nothing but the task and the folder."""
    subject, importance = _opened(task.folder)
    return _measured(task, subject, importance).model_dump_json()


@cache
def _opened(folder: str) -> tuple[Subject, Importance]:
    made = Port.open(folder)
    made.artifact.prepare(lambda _: None)
    subject = subject_of(made)
    return subject, known_importance(subject)


def _basis(subject: Subject) -> str:
    """A name for what all measurements depend on: weights, recording and code."""
    content = digest_of(subject.weights.path, subject.files.captured("trace"))
    return f"{VERSION}:{content}:{subject.artifact.code_digest}"


def _place(task: Task, basis: str) -> Path:
    asked = json.dumps([basis, task.scheme, sorted(task.mix), task.by_importance, task.by_layer, task.keep])
    name = hashlib.sha256(asked.encode()).hexdigest()[:24]
    return Path(task.folder) / MEASURED / f"{name}.json"


class _Kept(BaseModel):
    """A result, and a digest of the file that it is of: other choices of formats are kept under the same name."""

    drift: SchemeDrift
    file: str | None


def _keep(place: Path, task: Task, result: SchemeDrift) -> None:
    file = None if task.keep is None else digest_of(Path(task.keep))
    write_atomically(place, _Kept(drift=result, file=file).model_dump_json() + "\n")


def _kept(place: Path, task: Task, subject: Subject, importance: Importance) -> SchemeDrift | None:
    """The result of a task, if it is known; its file is written again if it is gone, or another's."""
    try:
        kept = _Kept.model_validate_json(place.read_bytes())
    except (OSError, ValidationError):
        return None
    if task.keep is None:
        return kept.drift
    file = Path(task.keep)
    if not file.is_file() or digest_of(file) != kept.file:
        write_blocks(file, subject, dict(task.mix), importance, by_importance=task.by_importance)
    return kept.drift if digest_of(file) == kept.file else None
