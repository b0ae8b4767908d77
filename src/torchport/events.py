"""What a job reports while it runs, as typed events; whoever shows it decides on the words.

In: a watcher, which is any function that takes an event. `Steps` times the steps of a job and reports them to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchport.parity.result import Layer

STEPS = ("capture", "convert", "build", "run", "compare", "explain")
"""The steps of a port in their order. A job may have others, which come after these."""


@dataclass(frozen=True)
class StepBegan:
    step: str
    text: str


@dataclass(frozen=True)
class StepEnded:
    step: str
    seconds: float
    """All seconds that the step has taken so far, if it was taken more than once."""
    failed: bool = False
    """Whether an error ended it."""


@dataclass(frozen=True)
class Message:
    """Something worth a line while a step goes on."""

    text: str


@dataclass(frozen=True)
class Passing:
    """How far a step is, such as the crate that is being compiled: of interest now, and to nobody later."""

    text: str


@dataclass(frozen=True)
class LayerJudged:
    """The first verdict on a layer. The report has the last, if the comparison looks at some layers again."""

    layer: Layer


@dataclass(frozen=True)
class CandidateStopped:
    """The port, or the candidate, ended before its end."""

    message: str


Event = StepBegan | StepEnded | Message | Passing | LayerJudged | CandidateStopped
Watcher = Callable[[Event], None]
Say = Callable[[str], None]
"""Takes a line of progress from code that knows no steps."""


def ignore(event: Event) -> None:
    """A watcher that shows nothing."""


def text_of(event: Event) -> str | None:
    """The line that a plain log shows for an event; None for what a log does not show."""
    return event.text if isinstance(event, StepBegan | Message) else None


def passing_text_of(event: Event) -> str | None:
    """The line that a display shows until the next one comes; None for what is not shown."""
    return event.text if isinstance(event, Passing) else text_of(event)


@dataclass
class Steps:
    """Times the steps of a job, and reports their beginning and end."""

    watch: Watcher = ignore
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str, text: str) -> Iterator[None]:
        self.watch(StepBegan(name, text))
        start = time.perf_counter()
        failed = True
        try:
            yield
            failed = False
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - start, 3)
            self.watch(StepEnded(name, self.seconds[name], failed))

    def say(self, text: str) -> None:
        self.watch(Message(text))

    def tick(self, text: str) -> None:
        self.watch(Passing(text))
