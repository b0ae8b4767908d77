"""The dashboard on the real terminal, from the first key to the last: `show` a run, `watch` work."""

import os
import sys

from torchport.report.tui import tty
from torchport.report.tui.app import PATIENCE, Dashboard
from torchport.report.tui.job import Job, Work
from torchport.runs.report import Report
from torchport.runs.run import Run

STOPPED = 130
"""The exit code that shells give for a program that was stopped by a key."""


def show(run: Run) -> None:
    tty.check()
    with tty.taken():
        _run(Dashboard(run))


def watch(work: Work, subject: str) -> Report:
    """Does `work` while the dashboard shows it; gives its report or raises its error once the user has quit."""
    tty.check()
    job = Job(work, subject)
    with tty.taken(job.sink):
        try:
            _run(Dashboard(job=job))
        finally:
            if job.alive:
                job.stop()
                job.wait(PATIENCE)
    if job.alive:
        # The work is deep in native code and cannot be waited for; to unwind Python under it would crash.
        print("stopped", file=sys.stderr, flush=True)
        os._exit(STOPPED)
    return job.result()


def _run(app: Dashboard) -> None:
    app.run()
    if app._exception is not None:
        raise app._exception
