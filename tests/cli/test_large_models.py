"""`torchport init`, and the page on large models: its commands do what it says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from .conftest import Answer

Torchport = Callable[..., Answer]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "large-models.md"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(block("python"))
    scope: dict[str, object] = {}
    exec(block("python"), scope)
    model = scope["Large"]()  # type: ignore[operator]
    torch.save({"model": model.state_dict()}, "checkpoint.pt")
    return tmp_path


def test_the_commands_of_the_page_make_and_prove_a_port(
    torchport: Torchport, project: Path, cargo: str
) -> None:
    for line in block("sh").splitlines():
        answer = torchport(*shlex.split(line)[1:])
        assert answer.code == 0, answer
    assert answer.stdout.startswith("PASS  large to candle: all 13 layers agree")


def test_a_project_has_scripts_traces_and_an_environment_of_its_own(
    torchport: Torchport, project: Path
) -> None:
    made = json.loads(torchport("init", "model.py:large", "--json").stdout)
    assert made["name"] == "large"
    names = {path.name for path in (project / ".torchport").iterdir()}
    assert names == {"recorder.py", "weights.py", "traces", "venv", "project.json", ".gitignore"}
    python = project / ".torchport" / "venv" / "bin" / "python"
    code = "import importlib.util, sys; print(sys.prefix, importlib.util.find_spec('torchport') is not None)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{python.parents[1]} True\n"
    assert "TP0801" in torchport("init", "model.py:large").stderr


@pytest.mark.slow
def test_record_without_arguments_runs_the_recorder_of_the_project(
    torchport: Torchport, project: Path
) -> None:
    assert torchport("init", "model.py:large", "--no-environment").code == 0
    recorded = json.loads(torchport("record", "--json").stdout)
    assert recorded["status"] == "recorded" and recorded["name"] == "large"
    traces = project / ".torchport" / "traces"
    assert {path.name for path in traces.iterdir()} == {"large_manifest.json", "large_weights.safetensors"}
    script = [sys.executable, ".torchport/weights.py", "checkpoint.pt", "model.safetensors"]
    done = subprocess.run(script, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert Path("model.safetensors").is_file()


def test_what_the_recorder_raises_is_said(torchport: Torchport, project: Path) -> None:
    assert torchport("init", "model.py:large", "--no-environment").code == 0
    (project / ".torchport" / "recorder.py").write_text("raise ValueError('no such luck')\n")
    answer = torchport("record")
    assert answer.code == 2 and "TP0206" in answer.stderr and "no such luck" in answer.stderr


def test_record_where_no_project_is_says_what_to_do(
    torchport: Torchport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = torchport("record")
    assert answer.code == 2 and "TP0801" in answer.stderr and "torchport init" in answer.stderr


@pytest.mark.parametrize("given", [("gone.py:f",), ("model.py:gone",), ("model.py",)])
def test_a_spec_that_is_wrong_makes_no_project(
    torchport: Torchport, project: Path, given: tuple[str, ...]
) -> None:
    assert torchport("init", *given).code == 2
    assert not (project / ".torchport").exists()


@pytest.mark.parametrize("given", [("m.py:f", "--name", "n"), ("m.py:f", "--out", "o"), ("--name", "n")])
def test_record_still_wants_a_name_and_a_place(
    torchport: Torchport, project: Path, given: tuple[str, ...]
) -> None:
    answer = torchport("record", *given)
    assert answer.code == 2 and "TP0801" in answer.stderr
