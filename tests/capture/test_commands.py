"""`torchport record`, by SPEC and by script."""

import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from torchport.capture.manifest import read_manifest
from torchport.cli import main

SPEC = """
import torch

def net():
    torch.manual_seed(0)
    print("noise on stdout")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    return model, (torch.ones(2, 4),)
"""
SCRIPT = """
import torch
from m import net
from torchport import GoldenRecorder

def main():
    recorder = GoldenRecorder("own", ops=True)
    model, args = net()
    recorder.record(torch.nn.ReLU(), *args)
    recorder.record(model, *args)
    recorder.save("mine")

if __name__ == "__main__":
    main()
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.py").write_text(SPEC)
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.delitem(sys.modules, "m", raising=False)
    monkeypatch.chdir(tmp_path)


def record(capsys: pytest.CaptureFixture[str], *options: str) -> dict:
    assert main(["record", *options, "--name", "net", "--out", "out", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def golden() -> torch.Tensor:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    with torch.no_grad():
        return model(torch.ones(2, 4))


def test_a_spec_is_recorded_under_the_name_given(capsys: pytest.CaptureFixture[str]) -> None:
    answer = record(capsys, "m.py:net")
    assert (answer["name"], answer["status"], answer["calls"]) == ("net", "recorded", 4)
    assert answer["dynamic"] == {"input:0": "batch"}
    assert {path.name for path in Path("out").iterdir()} == {
        Path(path).name for path in answer["files"].values()
    }
    torch.testing.assert_close(load_file("out/net_trace.safetensors")["2"], golden(), rtol=0, atol=0)


def test_free_axes_and_operations_are_options(capsys: pytest.CaptureFixture[str]) -> None:
    answer = record(capsys, "m.py:net", "--dynamic", "", "--ops")
    assert answer["dynamic"] == {}
    assert "0/linear" in load_file("out/net_trace.safetensors")


def test_hints_name_free_axes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("hints.json").write_text('{"dynamic": {"input": [0]}}')
    assert record(capsys, "m.py:net", "--hints", "hints.json")["dynamic"] == {"input:0": "batch"}


def test_a_scripts_last_recording_is_saved_under_the_name_given(capsys: pytest.CaptureFixture[str]) -> None:
    answer = record(capsys, "--script", "script.py")
    assert answer["name"] == "net" and answer["calls"] == 4
    graph, _ = read_manifest(Path("out/net_manifest.json"))
    assert graph.name == "net" and graph.root.class_name == "Sequential"
    trace = load_file("out/net_trace.safetensors")
    torch.testing.assert_close(trace["2"], golden(), rtol=0, atol=0)
    assert "0/linear" in trace
    assert Path("own/mine_manifest.json").is_file(), "what the script saves itself is there, too"
