"""Each row runs in a process of its own: what dies or hangs costs that row alone, and what was found is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchport.bench import child, running
from torchport.bench.measuring import Request
from torchport.bench.models import MODELS, BenchModel
from torchport.bench.results import BrokenConstraint, Latency, Results, Row
from torchport.bench.running import must_be_installed, run_benchmarks
from torchport.errors import TorchportError, UsageError

NETS = """
import os
import time
import torch


def fine():
    return torch.nn.Linear(3, 2), (torch.ones(4, 3),)


def dies():
    print("about to die", flush=True)
    os.abort()


def hangs():
    time.sleep(600)


def wrong():
    return torch.nn.Linear(3, 2), (torch.ones(4, 5),)
"""
REQUEST = Request(model="m", backend="inductor", device="cpu", small=True, warmup=0, runs=1, compare=True)


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_process_that_dies_costs_its_row_alone(nets: Path) -> None:
    said: list[str] = []
    results = run_benchmarks(
        ["nets.py:dies", "nets.py:fine"],
        ["eager"],
        runs=2,
        out=nets / "out" / "results.json",
        progress=said.append,
    )
    dead, fine = results.rows
    assert dead.status == "failed" and "SIGABRT" in str(dead.problem) and "about to die" in str(dead.problem)
    assert fine.status == "measured" and fine.latency is not None and fine.latency.runs == 2
    assert not results.passed and said == ["nets.py:dies on eager", "nets.py:fine on eager"]
    assert Results.model_validate_json((nets / "out" / "results.json").read_text()) == results


@pytest.mark.slow
def test_a_process_that_hangs_is_ended_in_time(nets: Path) -> None:
    (row,) = run_benchmarks(["nets.py:hangs"], ["eager"], time_limit=1).rows
    assert row.status == "timeout" and row.problem == "it took longer than 1 s"


def test_an_error_of_the_model_is_the_problem_of_its_row(nets: Path) -> None:
    request = REQUEST.model_copy(update={"model": "nets.py:wrong", "backend": "eager"})
    child.main(request.model_dump_json(), nets / "row.json")
    row = Row.model_validate_json((nets / "row.json").read_text())
    assert row.status == "failed" and "cannot be multiplied" in str(row.problem)


@pytest.mark.parametrize(
    ("end", "reason"),
    [(-11, "the process died of SIGSEGV: …last words"), (None, "it took longer than 9 s")],
)
def test_what_was_measured_is_kept_if_comparing_dies_or_hangs(
    tmp_path: Path, end: int | None, reason: str
) -> None:
    row = Row(model="m", backend="inductor", status="measured", latency=Latency.of([1.0]))
    (tmp_path / "row.json").write_text(row.model_dump_json())
    (tmp_path / "log").write_text("last words\n")
    judged = running._judged(REQUEST, tmp_path, end, 9)
    assert judged == row.model_copy(update={"verdict_reason": reason})


def test_a_model_that_cannot_run_here_is_listed_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "odd", BenchModel("odd", "", MODELS["ssm"].build, ("no_such_package",)))
    results = run_benchmarks(["odd"], ["eager"])
    assert results.rows[0].status == "unavailable" and results.passed
    assert "pip install no_such_package" in str(results.rows[0].problem)
    with pytest.raises(UsageError, match="needs no_such_package"):
        must_be_installed(["odd"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"models": []}, "at least one model"),
        ({"models": ["bort"]}, "no model 'bort'"),
        ({"backends": ["no_such"]}, "no adapter 'no_such'"),
        ({"runs": 0}, "runs must be at least 1"),
        ({"warmup": -1}, "warmup at least 0"),
        ({"time_limit": 0.0}, "more than 0"),
        ({"device": "abacus"}, "cannot use the device 'abacus'"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_runs(given: dict[str, object], message: str) -> None:
    with pytest.raises(TorchportError, match=message):
        run_benchmarks(**{"models": ["ssm"], "backends": ["eager"], **given})  # type: ignore[arg-type]


def test_the_summary_has_eager_and_backend_of_the_same_process() -> None:
    alone = Row(model="m", backend="eager", status="measured", latency=Latency.of([9.0]))
    pair = Row(
        model="m",
        backend="inductor",
        status="measured",
        latency=Latency.of([1.0]),
        eager=Latency.of([3.0]),
        speedup=3.0,
        verdict="pass",
    )
    lost = Row(model="n", backend="inductor", status="timeout")
    results = Results(
        created="now", torch="2", device="cpu", threads=1, warmup=0, runs=1, rows=(alone, pair, lost)
    )
    assert list(results.summary()) == [("m", 3000, 1000, 3.0, "pass"), ("n", None, None, None, "timeout")]
    assert json.loads(results.to_json())["schema"] == 1


def test_the_page_on_benchmarks_names_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text()
    fields = [*Row.model_fields, *Latency.model_fields, *BrokenConstraint.model_fields, *Results.model_fields]
    assert not [name for name in fields if f"`{name}`" not in page and name != "schema_version"]
    assert all(f"| `{name}` |" in page for name in MODELS)
