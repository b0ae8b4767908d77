"""The commands on debugging runs: from `run` to `clean`, what they print, and what they refuse."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from torchport.cli import main
from torchport.cli.debug import shared
from torchport.debug.folders import ROOT

from .sample import written
from .small_run import MODEL, run

WRONG_BACKEND = """
import torch


class WrongRelu(torch.fx.Interpreter):
    def run_node(self, node):
        found = super().run_node(node)
        return found * 1.001 if "relu" in str(node.target) else found


def wrong_relu(module, inputs):
    return WrongRelu(module).run
"""
FAILING_BACKENDS = """
from torchport.debug.adapters.base import AcceleratorAdapter
from torchport.debug.adapters.capabilities import AcceleratorCapabilities


class Tiny(AcceleratorAdapter):
    capabilities = AcceleratorCapabilities("tiny")

    def run_node(self, op, args, kwargs):
        raise RuntimeError("no such hardware")


tiny = Tiny()


def refuses(module, inputs):
    raise RuntimeError("no such hardware")


def made():
    return refuses
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "net.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return "net.py:build"


def test_the_commands_from_run_to_clean(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["debug", "run", spec, "--backend", "mock", "--alignment", "4", "--no-gradients", "--json"]) == 1
    )
    facts = json.loads(capsys.readouterr().out)
    assert facts["summary"]["graph_breaks"] == 1 and facts["summary"]["constraint_violations"] > 0
    assert main(["debug", "list"]) == 0 and "Net-mock-001" in capsys.readouterr().out
    assert main(["debug", "analyze"]) == 0 and "violation" in capsys.readouterr().out
    assert main(["debug", "analyze", "--type", "guards"]) == 0 and "net.py:13" in capsys.readouterr().out
    assert main(["debug", "analyze", "--type", "constraints", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["constraints"]["violations"]
    assert main(["debug", "report", "torchport-debug", "-o", "page.html"]) == 0
    assert "no multiple of 4" in (tmp_path / "page.html").read_text()
    assert main(["debug", "clean"]) == 2 and "--yes" in capsys.readouterr().err
    assert main(["debug", "clean", "--yes"]) == 0
    assert not any((tmp_path / "torchport-debug").iterdir())


def test_violations_are_printed_once(
    spec: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging.getLogger("torchport.debug"), "handlers", [])
    arguments = ["debug", "run", spec, "--backend", "mock", "--alignment", "4", "--no-gradients"]
    assert main([*arguments, "--no-compare"]) == 1
    printed = capsys.readouterr()
    assert "no multiple of 4" in printed.out and "no multiple of 4" not in printed.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["debug", "run", "nowhere.py:build"],
        ["debug", "run", "net.py:build", "--backend", "nonsense"],
        ["debug", "run", "net.py:build", "--backend", "nowhere.py:Tiny"],
        ["debug", "run", "net.py:build", "--dtype", "float33"],
        ["debug", "run", "net.py:build", "--alignment", "0"],
        ["debug", "run", "net.py:build", "--max-memory", "much"],
        ["debug", "run", "net.py:build", "--deny", "aten.konvolution"],
        ["debug", "run", "net.py:build", "--constraint", "net.py:Net"],
        ["debug", "analyze", "nowhere"],
        ["debug", "report", "nowhere"],
        ["debug", "clean", "net.py", "--yes"],
    ],
)
def test_bad_input_is_refused_by_name(
    spec: str, arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(arguments) == 2
    assert "TP" in capsys.readouterr().err and not (tmp_path / "torchport-debug").exists()


def test_a_violation_is_minified_from_the_folder_of_its_run(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "debug",
        "run",
        spec,
        "--backend",
        "mock",
        "--alignment",
        "4",
        "--no-gradients",
        "--no-compare",
    ]
    assert main(command) == 1
    capsys.readouterr()
    assert main(["debug", "minify", "torchport-debug", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "constraint" and len(found["operations"]) == 1
    assert found["fails_in_fresh_process"] and Path(found["script"]).is_file()


def test_the_command_that_a_report_suggests_reduces_the_run(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.py").write_text(WRONG_BACKEND)
    assert main(["debug", "run", spec, "--backend", "wrong.py:wrong_relu", "--no-gradients"]) == 1
    capsys.readouterr()
    assert main(["report", "torchport-debug/Net-wrong_relu-001/reports/kernel_diff"]) == 1
    (suggested,) = [line for line in capsys.readouterr().out.splitlines() if "torchport minify" in line]
    assert main([*suggested.split()[1:], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fails_in_fresh_process"] and found["operations"] == ["torch.Tensor.relu"], found["output"]


@pytest.mark.parametrize("name", ["Tiny", "tiny", "made"])
def test_a_backend_in_a_file_is_found_again(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "failing_backends.py").write_text(FAILING_BACKENDS)
    command = ["debug", "run", spec, "--backend", f"failing_backends.py:{name}", "--no-gradients"]
    assert main([*command, "--no-compare"]) == 1
    capsys.readouterr()
    assert main(["minify", "torchport-debug", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fails_in_fresh_process"] and "no such hardware" in found["message"], found["output"]


def test_a_strict_run_is_reduced_to_the_violation_that_stopped_it(
    spec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["debug", "run", spec, "--backend", "mock", "--alignment", "4", "--strict", "--no-compare"]
    assert main(command) == 1
    capsys.readouterr()
    assert main(["minify", "torchport-debug", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "constraint"


@pytest.mark.parametrize("command", [["report"], ["report", "--format", "html"], ["tui"]])
def test_a_command_for_ports_names_the_one_for_debugging_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    folder = written(tmp_path)
    assert main([*command, str(folder)]) == 2
    said = capsys.readouterr().err
    assert "is a debugging run" in said and f"torchport debug report {folder}" in said
    assert "torchport port" not in said


def test_a_run_without_a_failure_has_nothing_to_minify(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, compare=False)
    assert main(["minify", str(tmp_path)]) == 2
    assert "nothing failed" in capsys.readouterr().err


def test_the_commands_look_where_runs_go() -> None:
    assert shared.DEFAULT_ROOT == ROOT
