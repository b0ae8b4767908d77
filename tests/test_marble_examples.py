"""The examples of neuron graphs run, and what they claim holds: they assert it themselves."""

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "marble"
SAID = {
    "dynamic_messages.py": "an edge from b to c: c hears b",
    "custom_layer.py": "with the stub: Snake is not supported for conversion (snake)",
    "growth.py": "0 failures",
    "transformer.py": "fail: encoder.layers.1.linear1",
    "one_neuron.py": "MiniLM-L6 with its trained weights",
    "one_neuron.py --tiny": "a small BERT with random weights",
}


@pytest.mark.slow
@pytest.mark.parametrize("command", SAID)
def test_an_example_runs_and_says_what_it_promises(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, *arguments = command.split()
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    monkeypatch.setattr(sys, "path", list(sys.path))
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    assert SAID[command] in capsys.readouterr().out


def test_every_example_is_run() -> None:
    assert {command.split()[0] for command in SAID} == {path.name for path in FOLDER.glob("*.py")}
