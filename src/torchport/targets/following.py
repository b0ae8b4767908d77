"""Following a golden trace, for an artifact that runs inside this process: what it records, and what it goes on with.

In: the golden trace and the mode. Each value that the artifact computes is shown to `watch` under its key, and what it
gives in the end to `returned`. Out: the trace of the run, as a program of another target writes it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import torch

from torchport.targets.base import Mode
from torchport.trace.plan import call_of, is_input_key, operation_of, output_key, returned_key
from torchport.trace.reading import Trace
from torchport.trace.writing import write_tensors


class Follower:
    """Records the run of an artifact along a golden trace. The trace is written at the end, also after an error."""

    def __init__(self, golden: Path, mode: Mode, record: Path, *, notes_calls: bool = True) -> None:
        """Without `notes_calls` the trace does not say which calls were made: they may be others than the model's."""
        self.golden = Trace(golden)
        self.mode, self.record, self.notes_calls = mode, record, notes_calls
        self._values: dict[str, torch.Tensor] = {}
        self._events: list[tuple[str, str]] = []
        self._open: list[str] = []
        """The calls that have begun and not ended, the innermost last."""
        self._returned: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        metadata = {
            "schema": "1",
            "root": self.golden.root or "",
            "mode": self.mode,
            **({"events": json.dumps(self._events)} if self.notes_calls else {}),
            **self._returned,
        }
        write_tensors(self.record, self._values, metadata)
        self.golden.__exit__(kind, error, traceback)

    def watch(self, key: str, value: torch.Tensor) -> torch.Tensor:
        """Takes the value that was computed for a key, and gives the value to go on with."""
        self._note(key)
        if not self.golden.has(key):
            self._record(key, value)
            return value
        known = self.golden.get(key)
        if self._is_worth_recording(key, value, known):
            self._record(key, value)
        if self.mode == "chained":
            return value
        return known.to(value.dtype) if known.is_floating_point() == value.is_floating_point() else known

    def returned(self, outputs: Sequence[torch.Tensor], at: str | None = None) -> None:
        """Takes what the artifact gives in the end, which may be other than what its root showed to `watch`.

        `at` is the place in the artifact's source that hands it over.
        """
        for index, value in enumerate(outputs):
            self._record(returned_key(self.golden.root or "", index), value)
        self._returned = {"returned": json.dumps({"number": len(outputs), "at": at})}

    def _note(self, key: str) -> None:
        """A call begins with its first input, or with its output if it has no inputs, and ends with its output."""
        if operation_of(key) is not None:
            return
        call = call_of(key)
        is_end = key == output_key(call, 0)
        if (is_input_key(key) or is_end) and call not in self._open:
            self._events.append(("enter", call))
            self._open.append(call)
        while is_end and call in self._open:
            self._events.append(("exit", self._open.pop()))

    def _is_worth_recording(self, key: str, value: torch.Tensor, known: torch.Tensor) -> bool:
        """An input that is another call's output is recorded only if something else was handed over."""
        if not is_input_key(key) or key in self.golden:
            return True
        return self.mode == "lockstep" and not _is_same(value, known)

    def _record(self, key: str, value: torch.Tensor) -> None:
        # A copy: the artifact may write to its own memory again. A key that was recorded before stays as it was.
        self._values.setdefault(key, value.detach().clone())


def _is_same(value: torch.Tensor, known: torch.Tensor) -> bool:
    if value.shape != known.shape or value.dtype != known.dtype:
        return False
    return bool(((value == known) | ((value != value) & (known != known))).all())
