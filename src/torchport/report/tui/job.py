"""Work that runs in a thread while the dashboard shows it: steps, layers, what is printed, how it ended."""

import ctypes
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout

from torchport.events import Event, LayerJudged, StepBegan, StepEnded, Watcher, passing_text_of
from torchport.parity.result import Layer
from torchport.report.tui import processes
from torchport.runs.report import Report

_PRINTED = 5000


Work = Callable[[Watcher], Report]
"""Does the work, and reports to the watcher while it goes on."""


class Job:
    """Work in a thread, which writes the fields below; the dashboard reads them."""

    def __init__(self, work: Work, subject: str) -> None:
        self.subject = subject
        self.message = "starting"
        self.layers: list[Layer] = []
        self.printed: deque[str] = deque(maxlen=_PRINTED)
        self.report: Report | None = None
        self.error: BaseException | None = None
        self.stopped = False
        self._work = work
        self._begun: list[tuple[str, float]] = []
        self._ends: dict[str, StepEnded] = {}
        self._ended: float | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._before = processes.descendants()
        reader, self.sink = os.pipe()
        """`sink` is a file descriptor: text that is written to it is added to `printed`."""
        threading.Thread(target=self._read, args=(reader,), daemon=True).start()

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def step(self) -> str | None:
        """The step that is being done."""
        step = self._begun[-1][0] if self._begun else None
        return None if step in self._ends else step

    def has_failed(self, step: str) -> bool:
        return step in self._ends and self._ends[step].failed

    def seconds(self) -> dict[str, float]:
        """The seconds that each step that was begun has taken so far."""
        begun, now = list(self._begun), self._ended or time.monotonic()
        ends = [*(start for _, start in begun[1:]), now]
        so_far = {name: end - start for (name, start), end in zip(begun, ends, strict=False)}
        return so_far | {name: ended.seconds for name, ended in list(self._ends.items())}

    def stop(self) -> None:
        """Ends the programs that the work has started, and the work at its next line of Python."""
        self.stopped = True
        if (thread := self._thread.ident) is not None:
            raised = ctypes.py_object(KeyboardInterrupt)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)
        processes.end(processes.descendants() - self._before)

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)

    def result(self) -> Report:
        """The report, or the error that the work ended with."""
        if self.stopped:
            raise KeyboardInterrupt
        if self.error is not None:
            raise self.error
        assert self.report is not None
        return self.report

    def _run(self) -> None:
        # It is not closed at the end: loggers that were made meanwhile may still write to it.
        out = open(self.sink, "w", buffering=1, encoding="utf-8", errors="replace")  # noqa: SIM115
        try:
            with redirect_stdout(out), redirect_stderr(out):
                self.report = self._work(self._watch)
        except BaseException as error:
            self.error = error
        self._ended = time.monotonic()

    def _watch(self, event: Event) -> None:
        if isinstance(event, StepBegan):
            self._ends.pop(event.step, None)
            self._begun.append((event.step, time.monotonic()))
        elif isinstance(event, StepEnded):
            self._ends[event.step] = event
        elif isinstance(event, LayerJudged):
            self.layers.append(event.layer)
        if (text := passing_text_of(event)) is not None:
            self.message = text

    def _read(self, reader: int) -> None:
        with open(reader, encoding="utf-8", errors="replace", newline="\n") as lines:
            for line in lines:
                # A progress bar draws itself anew after each carriage return, so the last state counts.
                self.printed.append(line.rstrip("\r\n").rpartition("\r")[2])
