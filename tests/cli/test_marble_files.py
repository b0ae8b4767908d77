"""The commands that work on a graph in a file: run, validate, prune, grow, view, layers."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from torchport import marble
from torchport.capture.spec import load_spec

from .conftest import Answer
from .marble_models import SOURCE

Torchport = Callable[..., Answer]


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models, and the graphs of some of them."""
    folder = tmp_path_factory.mktemp("graphs")
    (folder / "zoo_of_graphs.py").write_text(SOURCE)
    for name in ("net", "reader", "counter"):
        model, args, kwargs = load_spec(f"{folder}/zoo_of_graphs.py:{name}")
        marble.save(marble.convert_model(model, args, kwargs), folder / f"{name}.marble")
    return folder


@pytest.fixture
def folder(graphs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(graphs, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written_input(folder: Path, suffix: str, value: torch.Tensor) -> str:
    path = folder / f"x{suffix}"
    if suffix == ".npy":
        np.save(path, value.numpy())
    elif suffix == ".pt":
        torch.save(value, path)
    else:
        save_file({"x": value}, path)
    return str(path)


@pytest.mark.parametrize("suffix", [".npy", ".pt", ".safetensors"])
@pytest.mark.parametrize("by", ["groups", "messages"])
def test_a_graph_computes_from_files_what_the_model_computes(
    torchport: Torchport, folder: Path, suffix: str, by: str
) -> None:
    model, (x,), _ = load_spec("zoo_of_graphs.py:net")
    given = written_input(folder, suffix, x)
    answer = torchport("marble", "run", "net.marble", "--input", given, "--output", f"y{suffix}", "--by", by)
    assert answer.code == 0, answer.stderr
    read = {
        ".npy": lambda path: torch.from_numpy(np.load(path)),
        ".pt": lambda path: torch.load(path)[0],
        ".safetensors": lambda path: load_file(path)["output0"],
    }[suffix]
    torch.testing.assert_close(read(folder / f"y{suffix}"), model(x))


def test_inputs_of_several_names_come_from_one_file(torchport: Torchport, folder: Path) -> None:
    model, _, kwargs = load_spec("zoo_of_graphs.py:reader")
    save_file(kwargs, folder / "in.safetensors")
    answer = torchport(
        "marble", "run", "reader.marble", "--input", "in.safetensors", "--output", "y.npy", "--json"
    )
    assert answer.code == 0, answer.stdout
    assert json.loads(answer.stdout)["outputs"][0]["shape"] == [2, 3, 3]
    torch.testing.assert_close(torch.from_numpy(np.load(folder / "y.npy")), model(**kwargs))


def test_random_inputs_of_a_shape_are_the_same_for_a_seed(torchport: Torchport, folder: Path) -> None:
    one, two, other = (
        torchport("marble", "run", "net.marble", "--input", "2x8", "--seed", seed).stdout for seed in "001"
    )
    assert one == two != other
    assert one.startswith("output 0: float32 [2, 4]")


def test_memories_begin_anew_unless_the_run_is_stateful(torchport: Torchport, folder: Path) -> None:
    once = torchport("marble", "run", "counter.marble", "--input", "5x1x3").stdout
    assert torchport("marble", "run", "counter.marble", "--input", "5x1x3").stdout == once
    twice = torchport("marble", "run", "counter.marble", "--input", "5x1x3", "--steps", "2").stdout
    assert twice != once
    first = torchport("marble", "run", "counter.marble", "--input", "5x1x3", "--stateful").stdout
    second = torchport("marble", "run", "counter.marble", "--input", "5x1x3", "--stateful").stdout
    assert (first, second) == (once, twice)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("net.marble",), "TP0801", "the graph needs inputs: x (float32 [2, 8])"),
        (("net.marble", "--input", "2x8", "--input", "2x8"), "TP0801", "takes 1 inputs, and 2 were given"),
        (("net.marble", "--input", "x.txt"), "TP0801", "nor a .npy"),
        (("net.marble", "--input", "none.npy"), "TP0801", "there is no file"),
        (("net.marble", "--input", "broken.npy"), "TP0905", "cannot be read"),
        (("net.marble", "--input", "2x8", "--output", "y.csv"), "TP0801", ".safetensors"),
        (("net.marble", "--input", "2x8", "--by", "magic"), "TP0801", "groups or messages"),
        (("net.marble", "--input", "2x8", "--steps", "0"), "TP0801", "--steps"),
        (("reader.marble", "--input", "2x3", "--input", "1"), "TP0801", "is of int64"),
        (("none.marble", "--input", "2x8"), "TP0360", "No such file"),
        (("zoo_of_graphs.py", "--input", "2x8"), "TP0361", "cannot be read"),
    ],
)
def test_a_run_that_cannot_be_done_is_refused(
    torchport: Torchport, folder: Path, arguments: tuple[str, ...], code: str, message: str
) -> None:
    (folder / "broken.npy").write_bytes(b"\x93NUMPY")
    answer = torchport("marble", "run", *arguments)
    assert answer.code == 2
    assert f"error {code}" in answer.stderr and message in answer.stderr
    assert "Traceback" not in answer.stderr and not (folder / "y.csv").exists()


def test_inputs_of_another_shape_are_refused(torchport: Torchport, folder: Path) -> None:
    answer = torchport("marble", "run", "net.marble", "--input", "2x9", "--output", "y.npy", "--json")
    message = json.loads(answer.stdout)["error"]["message"]
    assert answer.code == 2 and "[2, 8]" in message and "[2, 9]" in message
    assert not (folder / "y.npy").exists()


def test_validate_names_the_layers_that_differ(torchport: Torchport, folder: Path) -> None:
    assert torchport("marble", "validate", "net.marble", "--model", "zoo_of_graphs.py:net").code == 0
    answer = torchport("marble", "validate", "net.marble", "--model", "zoo_of_graphs.py:other", "--json")
    found = json.loads(answer.stdout)
    assert (answer.code, found["status"]) == (1, "fail")
    assert found["differing"][:2] == ["first", "last"]


def test_what_should_be_known_of_a_file_is_printed(torchport: Torchport, folder: Path) -> None:
    marble.save(marble.load(folder / "net.marble"), folder / "net.json")
    document = json.loads((folder / "net.json").read_text())
    (folder / "net.json").write_text(json.dumps({**document, "hidden_states": [{"h": 1}]}))
    note = "hidden states were passed over: no neuron of the graph is a memory"
    run = ("marble", "run", "net.json", "--input", "2x8")
    validate = ("marble", "validate", "net.json", "--model", "zoo_of_graphs.py:net")
    for command in (run, validate):
        told, told_as_json = torchport(*command), torchport(*command, "--json")
        assert f"note: {note}\n" in told.stdout, told.stderr
        assert json.loads(told_as_json.stdout)["notes"] == [note]


def test_pruning_removes_synapses_and_shows_in_a_validation(torchport: Torchport, folder: Path) -> None:
    answer = torchport(
        *(
            "marble",
            "prune",
            "net.marble",
            "--fraction",
            "0.5",
            "--layer",
            "last",
            "--output",
            "p.marble",
            "--json",
        )
    )
    told = json.loads(answer.stdout)
    assert (answer.code, told["weights_removed"]) == (0, 32)
    before, after = (marble.load(folder / f"{name}.marble") for name in ("net", "p"))
    assert len(before.synapses) - len(after.synapses) == 2 * 32
    failed = torchport("marble", "validate", "p.marble", "--model", "zoo_of_graphs.py:net", "--json")
    assert failed.code == 1 and json.loads(failed.stdout)["differing"][0] == "last"


def test_growing_changes_no_output(torchport: Torchport, folder: Path) -> None:
    before = marble.load(folder / "net.marble")
    answer = torchport("marble", "grow", "net.marble", "--group", "first/linear", "--neurons", "3")
    assert answer.code == 0, answer.stderr
    after = marble.load(folder / "net.marble")
    assert len(after.neurons) == len(before.neurons) + 2 * 2 * 3
    x = torch.randn(2, 8)
    torch.testing.assert_close(after.run(x)[0], before.run(x)[0])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("prune", "net.marble"), "TP0801"),
        (("prune", "net.marble", "--fraction", "0.1", "--below", "1"), "TP0801"),
        (("prune", "net.marble", "--fraction", "1.5"), "TP0904"),
        (("prune", "net.marble", "--below", "-1"), "TP0904"),
        (("prune", "net.marble", "--below", "1", "--layer", "middle"), "TP0901"),
        (("grow", "net.marble", "--group", "none", "--neurons", "1"), "TP0901"),
        (("grow", "net.marble", "--group", "first/linear", "--neurons", "0"), "TP0801"),
    ],
)
def test_a_change_that_cannot_be_made_leaves_the_file_as_it_was(
    torchport: Torchport, folder: Path, arguments: tuple[str, ...], code: str
) -> None:
    before = (folder / "net.marble").read_bytes()
    answer = torchport("marble", *arguments, "--json")
    assert (answer.code, json.loads(answer.stdout)["error"]["code"]) == (2, code)
    assert (folder / "net.marble").read_bytes() == before


def test_a_graph_is_shown_on_a_page(torchport: Torchport, folder: Path) -> None:
    answer = torchport("marble", "view", "net.marble", "--output", "page.html")
    assert answer.code == 0, answer.stderr
    assert "<html" in (folder / "page.html").read_text().lower()


def test_layers_are_listed_with_their_states(torchport: Torchport, folder: Path) -> None:
    answer = torchport("marble", "layers", "Linear", "Conv2d", "AdaptiveLogSoftmaxWithLoss", "--json")
    told = json.loads(answer.stdout)
    assert {one["name"]: one["state"] for one in told["layers"]} == {
        "Linear": "converts",
        "Conv2d": "converts",
        "AdaptiveLogSoftmaxWithLoss": "not supported",
    }
    assert told["counts"] == {"converts": 2, "not supported": 1}
    assert torchport("marble", "layers", "Linnear").code == 2
