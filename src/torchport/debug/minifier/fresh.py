"""Runs a script in a fresh process, and says whether it fails there as it should."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from torchport.debug.minifier.failure import Failure, message_shape


@dataclass(frozen=True)
class FreshRun:
    fails_alike: bool
    status: int | None
    """None if it was ended because its time was over."""
    stdout: str
    stderr: str

    @property
    def said(self) -> str:
        """What it printed; if that is nothing, what Python says of its end."""
        return self.stdout.strip() or self.stderr.strip()


def run_fresh(script: Path, failure: Failure, limit: float) -> FreshRun:
    """Runs a script; whatever it starts is ended with it."""
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        return FreshRun(failure.kind == "hang", None, stdout, stderr)
    except BaseException:  # Ctrl-C does not reach a process with a session of its own.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    is_alike = _is_alike(failure, process.returncode, stdout, stderr)
    return FreshRun(is_alike, process.returncode, stdout, stderr)


def _is_alike(failure: Failure, status: int, stdout: str, stderr: str) -> bool:
    """Whether an ending is that of the failure: the same signal, the same message, or the kind that a script prints."""
    if failure.kind == "crash":
        if status < 0:
            return failure.signature == f"signal {signal.Signals(-status).name}"
        return failure.signature == f"exit status {status}"
    if failure.kind == "exception":
        kind, _, message = failure.signature.partition(": ")
        lines = [message_shape(line) for line in stderr.splitlines()]
        return status == 1 and any(kind in line and message in line for line in lines)
    last = stdout.strip().splitlines()[-1:] or [""]
    return status == 1 and last[0].startswith(f"{failure.kind}: ")
