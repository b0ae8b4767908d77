"""The demo's claims hold, off a terminal too, and a claim that does not hold makes it fail."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.builds
def test_the_demo_proves_minilm_and_names_the_planted_fault(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "demo.py"], cwd=tmp_path, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS  minilm to candle: all 100 layers agree with PyTorch" in done.stdout
    cause = (
        "FAIL minilm to candle: layer_norm: eps is 1e-05 where the model has 1e-12, in BertOutput.forward,"
    )
    assert cause in " ".join(done.stdout.split())
    assert "1 of 100 layers diverge" in done.stdout
    assert "ok: the culprit is named: encoder.layer.3.output.LayerNorm" in done.stdout
    assert "NOT TRUE" not in done.stdout
    assert "\x1b" not in done.stdout
    assert not list(tmp_path.iterdir())


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("demo")


def test_a_claim_that_does_not_hold_makes_the_demo_fail(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(demo, "prove", lambda model: demo.claim(False, "water runs uphill"))
    for part in ("compare_answers", "break_it", "find_the_fault"):
        monkeypatch.setattr(demo, part, lambda *_: None)
    assert demo.demo() == 1
    assert "NOT TRUE: water runs uphill" in capsys.readouterr().out
