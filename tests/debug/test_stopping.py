"""Ctrl-C: a line says what is there and how to go on, and nothing is left running or half-written."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from torchport.bench import child, running
from torchport.bench.measuring import Request
from torchport.bench.results import Results
from torchport.cli import main
from torchport.debug import DebugReport, debug_script, minifying
from torchport.debug.folders import REPORT, runs_in
from torchport.debug.minifier.child import in_child
from torchport.debug.minifier.failure import Failure
from torchport.debug.minifier.fresh import run_fresh
from torchport.errors import Stopped

from .small_run import MODEL, run

SMALL = ["bench", "--model", "ssm", "--small", "--warmup", "0", "--runs", "2", "--no-compare"]


def is_stopped(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    raise KeyboardInterrupt


@contextmanager
def ctrl_c_after(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_run_that_is_stopped_keeps_what_it_found(tmp_path: Path) -> None:
    with pytest.raises(Stopped) as stop:
        run(tmp_path, backend=is_stopped)
    (folder,) = runs_in(tmp_path)
    assert str(folder.path) in str(stop.value) and "\n" not in str(stop.value)
    report = DebugReport.read(folder.path / REPORT)
    assert report.status == "fail" and report.summary.total_graphs == 1
    assert [(one.step, one.message) for one in report.failures] == [("compile", "stopped by Ctrl-C")]
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_script_that_is_stopped_keeps_what_it_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(
        "import torch\ntorch.compile(torch.sin, backend='eager')(torch.ones(3))\nraise KeyboardInterrupt\n"
    )
    with pytest.raises(Stopped):
        debug_script("train.py", root=tmp_path / "runs")
    (folder,) = runs_in(tmp_path / "runs")
    assert DebugReport.read(folder.report).summary.total_graphs == 1


def test_the_command_says_it_in_a_line_and_ends_with_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(MODEL)
    Path("backend.py").write_text("def stops(module, inputs):\n    raise KeyboardInterrupt\n")
    assert main(["debug", "run", "net.py:build", "--backend", "backend.py:stops", "--json"]) == 130
    out, err = capsys.readouterr()
    assert out == "" and err.splitlines()[-1].startswith(
        "stopped: what was found until then is in torchport-debug"
    )
    assert main(["debug", "analyze"]) == 0 and "stopped by Ctrl-C" in capsys.readouterr().out


def test_a_benchmark_that_is_stopped_shows_the_rows_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_child(request: Request, folder: Path, time_limit: float) -> int:
        if request.backend != "eager":
            raise KeyboardInterrupt
        child.main(request.model_dump_json(), folder / "row.json")
        return 0

    monkeypatch.setattr(running, "_run_child", run_child)
    out = tmp_path / "rows.json"
    assert main([*SMALL, "--out", str(out), "--json"]) == 130
    printed = capsys.readouterr()
    assert f"stopped after 1 of 3 rows, which are in {out}" in printed.err.splitlines()[-1]
    assert json.loads(printed.out) == json.loads(out.read_text())
    assert len(Results.model_validate_json(printed.out).rows) == 1


def test_a_reduction_that_is_stopped_leaves_the_run_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stops(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(MODEL)
    Path("refusing.py").write_text("def refuses(module, inputs):\n    raise RuntimeError('no')\n")
    command = ["debug", "run", "net.py:build", "--backend", "refusing.py:refuses", "--no-compare"]
    assert main(command) == 1
    before = sorted(tmp_path.rglob("*"))
    capsys.readouterr()
    monkeypatch.setattr(minifying, "minify_first", stops)
    assert main(["minify", "torchport-debug"]) == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert "no script was written" in said and "torchport minify torchport-debug" in said
    assert [path for path in sorted(tmp_path.rglob("*")) if "__pycache__" not in path.parts] == [
        path for path in before if "__pycache__" not in path.parts
    ]


def test_a_try_in_a_process_of_its_own_is_ended(tmp_path: Path) -> None:
    def waits() -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(600)

    with pytest.raises(KeyboardInterrupt), ctrl_c_after(2.0):
        in_child(waits, limit=600)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_script_in_a_fresh_process_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text(
        "import os, pathlib, time\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\ntime.sleep(600)\n"
    )
    with pytest.raises(KeyboardInterrupt), ctrl_c_after(2.0):
        run_fresh(script, Failure("hang", "", ""), limit=600)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
