"""Running a generated program along a golden trace, and what it leaves if it stops."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from torchport.errors import DiskError, RunError
from torchport.targets.base import Mode, Stopped, Todo


def run(
    program: Path,
    folder: Path,
    trace: Path,
    mode: Mode,
    record: Path,
    name: str,
    *,
    weights: Path | None = None,
) -> Stopped | None:
    """Runs the port along a trace. Gives why it stopped, or None if it came to its end.

    `folder` has the config and, unless another file is given, the weights.
    """
    record.parent.mkdir(parents=True, exist_ok=True)
    record.unlink(missing_ok=True)
    stop_file(record).unlink(missing_ok=True)
    command = [str(program), "--weights", str(weights or folder / "model.safetensors")]
    command += ["--config", str(folder / "config.json")]
    command += ["--check", str(trace), "--mode", mode, "--record", str(record)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    message = _without_backtrace(done.stderr)[-1500:] or f"it ended with status {done.returncode}"
    if "No space left on device" in message:
        raise DiskError("TP0330", f"the disk is full while the port runs: {message}", where=str(record))
    if not record.is_file():
        raise RunError(
            "TP0601", f"the port stopped before it computed anything: {message}", where=str(folder)
        )
    stop = read_stop(record)
    if stop is None:
        return Stopped(message=message)
    todo = None if stop.todo is None else Todo(op=stop.todo.op, layer=name, reason=stop.todo.message)
    return Stopped(message=_without_backtrace(stop.message)[-1500:], todo=todo)


class ReachedTodo(BaseModel):
    """The operation that nothing maps yet, at which a port stopped."""

    model_config = ConfigDict(frozen=True)

    op: str
    message: str


class StoppedRun(BaseModel):
    """Why a port stopped, in its own words."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = Field(alias="schema")
    message: str
    todo: ReachedTodo | None


def stop_file(record: Path) -> Path:
    """The file in which a port that records to `record` writes why it stopped."""
    return record.with_name(f"{record.name}.stopped.json")


def read_stop(record: Path) -> StoppedRun | None:
    """Why the port that recorded to `record` stopped, or None if it came to its end or was killed."""
    path = stop_file(record)
    return StoppedRun.model_validate_json(path.read_bytes()) if path.is_file() else None


def _without_backtrace(text: str) -> str:
    """The text before the list of frames."""
    return re.split(r"\n\s*(?:stack backtrace:|Stack backtrace:|0: )", text.strip(), maxsplit=1)[0].strip()
