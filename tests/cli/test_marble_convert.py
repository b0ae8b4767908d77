"""`torchport marble convert` writes a graph, or says why not and writes nothing."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from torchport import marble

from .conftest import Answer
from .marble_models import SOURCE

Torchport = Callable[..., Answer]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "zoo_of_neurons.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SPEC = "zoo_of_neurons.py:net"


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"zoo_of_neurons.py", "__pycache__"}


def test_a_model_is_converted_validated_and_written(torchport: Torchport, folder: Path) -> None:
    answer = torchport(
        "marble", "convert", "--pytorch", SPEC, "--output", "net.marble", "--validate", "--summary"
    )
    assert answer.code == 0, answer.stderr
    assert "PASS  Net by groups: all 3 layers agree with PyTorch (noise floor x 4)" in answer.stdout
    assert "weighted sum" in answer.stdout and "wrote net.marble" in answer.stdout
    assert "converting the model to neurons" in answer.stderr
    core = marble.load(folder / "net.marble")
    assert len(core.neurons) == 16 + 32 + 32 + 8


def test_the_summary_goes_to_files_and_the_graph_to_stdout(torchport: Torchport, folder: Path) -> None:
    answer = torchport(
        *("marble", "convert", "--pytorch", SPEC, "--output", "net.marble", "--show-graph"),
        *("--summary-output", "s.json", "--summary-csv", "s.csv", "--summary-plot", "s.svg"),
    )
    assert answer.code == 0, answer.stderr
    assert "first/linear" in answer.stdout
    assert json.loads((folder / "s.json").read_text())["neurons"] == 88
    assert (folder / "s.csv").read_text().startswith("layer,kind,groups,neurons,synapses\n")
    assert (folder / "s.svg").read_text().startswith("<svg")


def test_a_dry_run_writes_nothing(torchport: Torchport, folder: Path) -> None:
    answer = torchport(
        *("marble", "convert", "--pytorch", SPEC, "--output", "net.marble", "--dry-run"),
        *("--summary-csv", "s.csv", "--json"),
    )
    assert answer.code == 0
    told = json.loads(answer.stdout)
    assert (told["status"], told["files"], told["summary"]["neurons"]) == ("converted", [], 88)
    assert files(folder) == set()


def test_keyword_inputs_and_a_positional_encoding_from_a_configuration(
    torchport: Torchport, folder: Path
) -> None:
    (folder / "c.yaml").write_text(
        "output: r.marble\nname: reader\nvalidate: true\npositional_encoding: {kind: learned, seed: 4}\n"
    )
    answer = torchport(
        "marble", "convert", "--pytorch", "zoo_of_neurons.py:reader", "--config", "c.yaml", "--json"
    )
    assert answer.code == 0, answer.stderr
    assert json.loads(answer.stdout)["validation"]["passed"]
    assert "tokens.positions" in marble.load(folder / "r.marble").state_dict()
    checked = ("marble", "validate", "r.marble", "--model", "zoo_of_neurons.py:reader")
    assert torchport(*checked, "--config", "c.yaml").code == 0
    failed = torchport(*checked)
    assert failed.code == 1 and "tokens" in failed.stdout


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_a_state_dict_fills_the_model_that_is_named(torchport: Torchport, folder: Path, suffix: str) -> None:
    weights = {
        "first.weight": torch.randn(16, 8),
        "first.bias": torch.randn(16),
        "last.weight": torch.randn(4, 16),
        "last.bias": torch.randn(4),
    }
    file = folder / f"w{suffix}"
    save_file(weights, file) if suffix == ".safetensors" else torch.save(
        {"state_dict": weights, "epoch": 3}, file
    )
    answer = torchport(
        *(
            "marble",
            "convert",
            "--pytorch",
            str(file),
            "--model",
            SPEC,
            "--output",
            "net.marble",
            "--validate",
        )
    )
    assert answer.code == 0, answer.stderr
    state = marble.load(folder / "net.marble").state_dict()
    assert all(torch.equal(state[name], value) for name, value in weights.items())


def test_a_pickled_model_is_refused_and_nothing_in_it_is_run(torchport: Torchport, folder: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), folder / "whole.pt")
    answer = torchport("marble", "convert", "--pytorch", "whole.pt", "--model", SPEC, "--output", "n.marble")
    assert answer.code == 2
    assert "error TP0322" in answer.stderr and "torch.save(model.state_dict(), FILE)" in answer.stderr
    assert files(folder) == {"whole.pt"}


def test_torchscript_and_exported_programs_are_refused(torchport: Torchport, folder: Path) -> None:
    torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.randn(1, 2)), folder / "script.pt")
    (folder / "program.pt2").write_bytes(b"PK")
    for name, what in (("script.pt", "TorchScript"), ("program.pt2", "an exported program")):
        answer = torchport("marble", "convert", "--pytorch", name, "--model", SPEC, "--output", "n.marble")
        assert answer.code == 2
        assert what in answer.stderr and "torch.save(model.state_dict(), FILE)" in answer.stderr
    assert files(folder) == {"script.pt", "program.pt2"}


def test_a_journal_is_begun_beside_the_file(torchport: Torchport, folder: Path) -> None:
    assert torchport("marble", "convert", "--pytorch", SPEC, "--output", "n.marble", "--journal").code == 0
    assert files(folder) == {"n.marble", "n.marble.journal"}


def test_the_exchange_format_of_marble_is_written_by_its_extension(
    torchport: Torchport, folder: Path
) -> None:
    answer = torchport("marble", "convert", "--pytorch", SPEC, "--output", "n.json")
    assert (answer.code, files(folder)) == (0, {"n.json"})
    assert set(json.loads((folder / "n.json").read_text())) >= {"neurons", "synapses"}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--pytorch", SPEC), "TP0801", "--output FILE, or --dry-run"),
        (("--pytorch", SPEC, "--output", "net.onnx"), "TP0801", ".marble or .json"),
        (("--pytorch", SPEC, "--output", "n.marble", "--tolerance", "-1"), "TP0801", "--tolerance is -1.0"),
        (("--pytorch", SPEC, "--output", "n.marble", "--tolerance", "nan"), "TP0801", "--tolerance is nan"),
        (("--pytorch", SPEC, "--output", "n.marble", "--tolerance", "inf"), "TP0801", "--tolerance is inf"),
        (("--pytorch", SPEC, "--output", "n.marble", "--tolerance", "tight"), "TP0801", "valid number"),
        (
            ("--pytorch", SPEC, "--output", "n.marble", "--positional-encoding", "rotary"),
            "TP0801",
            "sinusoidal or learned",
        ),
        (
            ("--pytorch", SPEC, "--output", "n.marble", "--positional-encoding", "learned"),
            "TP0405",
            "Embedding",
        ),
        (("--pytorch", SPEC, "--output", "n.marble", "--summary-plot", "s.gif"), "TP0801", ".svg or .png"),
        (("--pytorch", SPEC, "--output", "n.marble", "--model", SPEC), "TP0801", "a model already"),
        (("--pytorch", "w.pt", "--output", "n.marble"), "TP0801", "--model file.py:callable"),
        (("--pytorch", "w.pt", "--model", SPEC, "--output", "n.marble"), "TP0322", "no such file"),
        (("--pytorch", "w.pt2", "--model", SPEC, "--output", "n.marble"), "TP0322", "no such file"),
        (("--pytorch", "zoo_of_neurons.py:odd", "--output", "n.marble"), "TP0401", "linalg_eig"),
        (
            ("--pytorch", "zoo_of_neurons.py:without_inputs", "--output", "n.marble"),
            "TP0404",
            "never guessed",
        ),
        (("--pytorch", "zoo_of_neurons.py:none", "--output", "n.marble"), "TP0103", "none"),
        (("--pytorch", SPEC, "--output", "n.marble", "--config", "no.yaml"), "TP0108", "no.yaml"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(
    torchport: Torchport, folder: Path, arguments: tuple[str, ...], code: str, message: str
) -> None:
    answer = torchport("marble", "convert", *arguments)
    assert answer.code == 2
    assert f"error {code}" in answer.stderr and message in answer.stderr
    assert "next:" in answer.stderr and "Traceback" not in answer.stderr
    assert files(folder) == set()


@pytest.mark.parametrize(
    ("weights", "code", "message"),
    [
        ({"first.weight": torch.zeros(16, 8)}, "TP0320", "has no first.bias"),
        ({"first.weight": torch.zeros(9, 8)}, "TP0320", "has no first.bias"),
        (torch.zeros(3), "TP0322", "no state dict"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    torchport: Torchport, folder: Path, weights: object, code: str, message: str
) -> None:
    torch.save(weights, folder / "w.pt")
    answer = torchport("marble", "convert", "--pytorch", "w.pt", "--model", SPEC, "--output", "n.marble")
    assert answer.code == 2
    assert code in answer.stderr and message in answer.stderr
    assert files(folder) == {"w.pt"}


def test_a_tolerance_is_a_wish_to_validate(torchport: Torchport, folder: Path) -> None:
    answer = torchport("marble", "convert", "--pytorch", SPEC, "--dry-run", "--tolerance", "1e-6", "--json")
    found = json.loads(answer.stdout)["validation"]
    assert answer.code == 0 and found["passed"] and found["tolerance"] == 1e-6


def test_a_verdict_is_given_only_if_the_graph_was_compared(torchport: Torchport, folder: Path) -> None:
    plain = ("marble", "convert", "--pytorch", SPEC, "--dry-run", "--json")
    assert json.loads(torchport(*plain).stdout)["status"] == "converted"
    assert json.loads(torchport(*plain, "--validate").stdout)["status"] == "pass"


def test_what_should_be_known_of_a_conversion_is_printed_once(torchport: Torchport, folder: Path) -> None:
    asked = ("marble", "convert", "--pytorch", "zoo_of_neurons.py:writer", "--dry-run")
    answer = torchport(*asked)
    note = "the model writes to last when it is called; the graph keeps what was there"
    assert f"note: {note}\n" in answer.stdout and note not in answer.stderr
    assert json.loads(torchport(*asked, "--json").stdout)["notes"] == [note]
    assert json.loads(torchport(*asked[:3], SPEC, "--dry-run", "--json").stdout)["notes"] == []


def test_every_step_is_logged_if_asked_for(torchport: Torchport, folder: Path) -> None:
    quiet = torchport("marble", "convert", "--pytorch", SPEC, "--dry-run")
    verbose = torchport("marble", "convert", "--pytorch", SPEC, "--dry-run", "--verbose")
    assert "torchport.marble: captured Net by torch.export" not in quiet.stderr
    assert "torchport.marble: captured Net by torch.export" in verbose.stderr
    assert "torchport.marble: converted 4 groups, 88 neurons" in verbose.stderr
