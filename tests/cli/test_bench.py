"""`torchport bench`: what it prints, and how it exits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from torchport.bench import child, running
from torchport.bench.measuring import Request
from torchport.bench.results import Results

from .conftest import Answer

Torchport = Callable[..., Answer]
NET = "import torch\n\n\ndef net():\n    return torch.nn.Linear(64, 8), (torch.randn(4, 64),)\n"
SMALL = ("bench", "--model", "ssm", "--small", "--warmup", "0", "--runs", "2")


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows run here: a process of its own for each takes seconds, and is tested in tests/bench."""

    def run(request: Request, folder: Path, time_limit: float) -> int:
        child.main(request.model_dump_json(), folder / "row.json")
        return 0

    monkeypatch.setattr(running, "_run_child", run)


def test_models_and_backends_are_listed(torchport: Torchport) -> None:
    answer = torchport("bench", "--list")
    assert answer.code == 0 and answer.stdout.startswith("models:\n  bert ")
    assert "\nbackends:\n  eager " in answer.stdout and "  integrated_mock " in answer.stdout
    listed = json.loads(torchport("bench", "--list", "--json").stdout)
    assert [model["name"] for model in listed["models"]] == ["bert", "resnet", "ssm"]


@pytest.mark.usefixtures("in_this_process")
def test_a_table_has_the_summary_and_every_row(torchport: Torchport, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    answer = torchport(*SMALL, "--backend", "eager", "--backend", "mock", "--out", str(file))
    assert answer.code == 0, answer.stderr
    headings, _, first = (line.strip() for line in answer.stdout.strip().splitlines()[:3])
    assert headings.split() == ["model", "eager", "ms", "mock", "ms", "speed-up", "verdict"]
    assert first.split()[0] == "ssm" and first.endswith("no kernel ran")
    assert "2 runs after 0 to warm up" in answer.stdout and "ssm on mock\n" in answer.stderr
    assert len(Results.model_validate_json(file.read_text()).rows) == 2


@pytest.mark.usefixtures("in_this_process")
def test_a_wrong_backend_exits_with_1_and_json_names_the_culprit(
    torchport: Torchport, tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text(NET)
    answer = torchport("bench", "--model", f"{tmp_path}/net.py:net", "--backend", "integrated_mock", "--json")
    (row,) = Results.model_validate_json(answer.stdout).rows
    assert answer.code == 1 and row.verdict == "fail" and "aten.addmm.default" in str(row.verdict_reason)


@pytest.mark.usefixtures("in_this_process")
def test_a_row_that_fails_exits_with_1(torchport: Torchport, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("def net():\n    raise OSError('no such weights')\n")
    answer = torchport("bench", "--model", f"{tmp_path}/net.py:net", "--backend", "eager")
    assert answer.code == 1 and "no such weights" in answer.stdout and "failed" in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "needs --model NAME or --all"),
        (("--model", "bort"), "there is no model 'bort'"),
        (("--model", "ssm", "--backend", "brick"), "there is no adapter 'brick'"),
        (("--model", "ssm", "--device", "abacus"), "cannot use the device"),
        (("--model", "ssm", "--runs", "0"), "runs"),
    ],
)
def test_what_cannot_be_done_exits_with_2(
    torchport: Torchport, arguments: tuple[str, ...], message: str
) -> None:
    answer = torchport("bench", *arguments)
    assert answer.code == 2 and message in answer.stderr
