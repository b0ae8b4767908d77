"""Benchmarks: each model under each backend, in a process of its own, so that what dies costs one row."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch

from torchport.bench.backends import USUAL, must_be_known
from torchport.bench.measuring import Request
from torchport.bench.models import BenchModel, find_model
from torchport.bench.results import Results, Row
from torchport.errors import Stopped, UsageError
from torchport.explain.repro import counted


class BenchStopped(Stopped):
    """Ctrl-C, with the rows that were measured until then."""

    def __init__(self, message: str, results: Results) -> None:
        super().__init__(message)
        self.results = results


LAST_WORDS = 300
"""How many characters are kept of what a process that died has printed last."""


def run_benchmarks(
    models: Sequence[str],
    backends: Sequence[str] = USUAL,
    *,
    warmup: int = 3,
    runs: int = 10,
    device: str = "cpu",
    small: bool = False,
    compare: bool = True,
    time_limit: float = 600.0,
    out: Path | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Results:
    """Measures each model, given by name or SPEC, under each backend.

    `compare` asks for KernelDiff's verdict. `time_limit` is in seconds, for one row. `out` is a JSON file that is
    written after every row, so that whatever stops the run leaves what was found.
    """
    _must_be_possible(models, backends, warmup, runs, device, time_limit)
    results = Results(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        torch=torch.__version__,
        device=_device_name(device),
        threads=torch.get_num_threads(),
        warmup=warmup,
        runs=runs,
    )
    rows = [
        (find_model(name), backend) for name in dict.fromkeys(models) for backend in dict.fromkeys(backends)
    ]
    try:
        for model, backend in rows:
            progress(f"{model.name} on {backend}")
            request = Request(
                model=model.name,
                backend=backend,
                device=device,
                small=small,
                warmup=warmup,
                runs=runs,
                compare=compare,
            )
            results = results.model_copy(update={"rows": (*results.rows, _row(model, request, time_limit))})
            if out is not None:
                results.save(out)
    except KeyboardInterrupt as stop:
        raise BenchStopped(_what_is_there(results, len(rows), out), results) from stop
    return results


def _what_is_there(results: Results, total: int, out: Path | None) -> str:
    place = f", which are in {out}" if out is not None and results.rows else ""
    measured = f"stopped after {len(results.rows)} of {counted(total, 'row')}{place}"
    return f"{measured}; --model and --backend name what is still to be measured"


def _must_be_possible(
    models: Sequence[str],
    backends: Sequence[str],
    warmup: int,
    runs: int,
    device: str,
    time_limit: float,
) -> None:
    if not models or not backends:
        raise UsageError("TP0801", "a benchmark needs at least one model and one backend")
    if runs < 1 or warmup < 0 or not time_limit > 0:
        raise UsageError("TP0801", "runs must be at least 1, warmup at least 0, the time limit more than 0")
    for name in models:
        find_model(name)
    for name in backends:
        must_be_known(name)
    try:
        torch.zeros(1, device=device)
    except Exception as error:
        raise UsageError("TP0801", f"torch cannot use the device {device!r}: {error}") from error


def must_be_installed(names: Sequence[str]) -> None:
    """Refuses a model that was asked for by name while a package that it needs is missing."""
    for model in map(find_model, names):
        if model.advice is not None:
            missing = ", ".join(model.missing)
            raise UsageError("TP0803", f"the model {model.name} needs {missing}", fix=model.advice)


def _row(model: BenchModel, request: Request, time_limit: float) -> Row:
    if model.advice is not None:
        problem = f"{', '.join(model.missing)} not installed: {model.advice}"
        return Row(model=model.name, backend=request.backend, status="unavailable", problem=problem)
    with tempfile.TemporaryDirectory(prefix="torchport-bench-") as folder:
        place = Path(folder)
        end = _run_child(request, place, time_limit)
        return _judged(request, place, end, time_limit)


def _run_child(request: Request, folder: Path, time_limit: float) -> int | None:
    """The exit code of the process of a row; None if it ran out of time and was ended."""
    command = [
        sys.executable,
        "-m",
        "torchport.bench.child",
        request.model_dump_json(),
        str(folder / "row.json"),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        # What an earlier run has compiled must not make this one look fast.
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
    }
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            return child.wait(time_limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends a process that still runs, with all that it has started."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _judged(request: Request, folder: Path, end: int | None, time_limit: float) -> Row:
    """The row that a process has left; if it died or hung while kernels were compared, what it had measured."""
    file = folder / "row.json"
    row = Row.model_validate_json(file.read_text()) if file.is_file() else None
    if end == 0 and row is not None:
        return row
    log = (folder / "log").read_text(errors="replace")
    why = f"it took longer than {time_limit:g} s" if end is None else f"the process {_death(end, log)}"
    if row is not None:
        return row.model_copy(update={"verdict_reason": why})
    status = "timeout" if end is None else "failed"
    return Row(model=request.model, backend=request.backend, status=status, problem=why)  # type: ignore[arg-type]


def _death(end: int, log: str) -> str:
    how = f"died of {signal.Signals(-end).name}" if end < 0 else f"ended with {end}"
    last = log.strip()[-LAST_WORDS:]
    return f"{how}: …{last}" if last else how


def _device_name(device: str) -> str:
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return device
