"""A row has what was measured: times of eager and backend in turn, memory, graphs, violations, and a verdict."""

from __future__ import annotations

import pytest
import torch

from torchport.bench import measuring
from torchport.bench.measuring import Request, measure
from torchport.bench.memory import allocated_by, held_by
from torchport.bench.results import Latency, Row
from torchport.capture.spec import Subject

NET = """
import torch


class Broken(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(32, 32)

    def forward(self, x):
        x = self.linear(x)
        torch._dynamo.graph_break()
        return self.linear(x).double()


def net():
    return Broken(), (torch.randn(4, 32),)
"""


@pytest.fixture
def spec(tmp_path: pytest.TempPathFactory) -> str:
    (tmp_path / "net.py").write_text(NET)  # type: ignore[operator]
    return f"{tmp_path}/net.py:net"


def rows(model: str, backend: str, compare: bool = False) -> list[Row]:
    request = Request(
        model=model, backend=backend, device="cpu", small=True, warmup=1, runs=3, compare=compare
    )
    return list(measure(request))


def test_eager_is_measured_by_itself() -> None:
    (row,) = rows("ssm", "eager", compare=True)
    assert row.latency is not None and row.latency == row.eager and row.latency.runs == 3
    assert row.speedup == 1 and row.graphs is None and row.compile_seconds is None
    assert row.peak_memory_bytes and row.process_peak_bytes and row.peak_memory_bytes < row.process_peak_bytes


def test_graphs_breaks_and_violations_of_a_model_of_the_user_are_counted(spec: str) -> None:
    (row,) = rows(spec, "mock_accelerator")
    assert (row.graphs, row.breaks) == (2, 1)
    assert row.violations == len(row.first_violations) >= 1
    assert {one.constraint for one in row.first_violations} == {"dtype"}
    assert row.first_violations[0].source == f"{spec.removesuffix(':net')}:13"
    assert row.eager is not None and row.latency is not None and row.compile_seconds is not None
    assert row.speedup == pytest.approx(row.eager.median / row.latency.median)


def test_a_mock_is_measured_and_proves_nothing() -> None:
    before, row = rows("ssm", "mock", compare=True)
    assert before.verdict == "not compared" and row.verdict == "no kernel ran" and row.violations == 0
    assert row.latency == before.latency and not row.is_bad


def test_a_backend_that_computes_something_else_fails_with_the_line(spec: str) -> None:
    *_, row = rows(spec, "integrated_mock", compare=True)
    assert row.verdict == "fail" and row.is_bad
    assert row.verdict_reason is not None and "net.py:1" in row.verdict_reason


def test_eager_and_backend_take_turns() -> None:
    called: list[str] = []
    golden, candidate = measuring._in_turn(lambda: called.append("e"), lambda: called.append("b"), 4)
    assert "".join(called) == "ebbeebbe" and golden.runs == candidate.runs == 4


def test_a_latency_has_mean_deviation_and_median_in_milliseconds() -> None:
    found = Latency.of([0.001, 0.002, 0.006])
    assert (found.average, found.median, found.runs) == (pytest.approx(3), pytest.approx(2), 3)
    assert found.deviation == pytest.approx(7**0.5) and Latency.of([1.0]).deviation == 0


def test_memory_is_the_most_that_is_alive_at_a_time() -> None:
    def call() -> torch.Tensor:
        wide = torch.empty(1000)
        narrow = wide[:500].clone()
        del wide
        return narrow.clone()

    assert allocated_by(call) == 6000


def test_weights_that_are_shared_count_once() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False))
    model[1].weight = model[0].weight
    x = torch.zeros(2, 8)
    assert held_by(Subject(model, (x, x[:1]), {})) == 4 * (64 + 16)
