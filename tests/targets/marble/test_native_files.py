"""A `.marble` file gives back the graph that was saved, or a clear error; its journal survives a crash."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from torchport.errors import GraphFileError, NeuronError
from torchport.marble import Core, convert_model, load, save

X = torch.randn(1, 4, generator=torch.Generator().manual_seed(1))


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 3), nn.Softmax(-1)).eval()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "mlp.marble"
    save(convert_model(mlp(), X), path)
    return path


@pytest.fixture
def path(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(saved, tmp_path))


def test_a_graph_comes_back(path: Path) -> None:
    core, model = load(path), mlp()
    assert torch.equal(core.run(X)[0], model(X))
    for name, value in model.state_dict().items():
        assert torch.equal(core.state_dict()[name], value)
    again = path.with_name("again.marble")
    save(core, again)
    assert header_of(again)["checksum"] == header_of(path)["checksum"]


def test_a_batch_norm_comes_back(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval(), torch.randn(1, 1, 5, 5)
    save(convert_model(model, x), tmp_path / "norm.marble")
    assert torch.equal(load(tmp_path / "norm.marble").run(x)[0], model(x))


@pytest.mark.parametrize(
    "record",
    [
        {"change": "format the disk", "arguments": {"dict": {}}},
        {"change": "add_group", "arguments": {"dict": {"size": -1}}},
        {"change": "prune", "arguments": {"dict": {"fraction": "x", "below": None, "layer": None}}},
        {"change": "set_outputs", "arguments": {"dict": {"outputs": [{"range": [0, 10**15]}]}}},
        {"change": "undo", "arguments": {"dict": {}}},
        {},
    ],
)
def test_a_change_that_cannot_be_made_is_refused(path: Path, record: dict[str, object]) -> None:
    from torchport.targets.marble.files.journal import _record, journal_of

    load(path, journal=True)
    with journal_of(path).open("ab") as file:
        file.write(_record(record))
    assert "change 1" in str(refused(path, "TP0362"))


def test_what_was_changed_comes_back(path: Path) -> None:
    core = load(path)
    sums = core.groups()[1].ids
    core.prune(fraction=0.3)
    more = core.add_neuron_group(2, name="more", activation="tanh")
    core.connect(sums, more, 0.5)
    core.remove_synapses([(more.takes[0], 2)])
    core.remove_neurons([more.gives[1], more.takes[1]])
    save(core, path)
    other = load(path)
    assert torch.equal(other.run(X)[0], core.run(X)[0])
    assert (len(other.neurons), len(other.synapses)) == (len(core.neurons), len(core.synapses))
    assert [one.number for one in other.synapses.of(more.takes[0])] == [0, 1, 3, 4, 5]
    with pytest.raises(NeuronError, match="was removed"):
        other.neurons[more.takes[1]]
    assert other.add_neuron_group(1, name="next").takes[0] == core.version.next_id


def test_state_comes_back(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = nn.LSTM(3, 5, 2, bidirectional=True), torch.randn(4, 1, 3)
    core, state = convert_model(model.eval(), x), None
    for _ in range(3):
        expected, state = model(x, state)
        torch.testing.assert_close(core.step(x)[0], expected)
    save(core, tmp_path / "lstm.marble")
    other = load(tmp_path / "lstm.marble")
    for _ in range(3):
        expected, state = model(x, state)
        found = other.step(x)[0]
        torch.testing.assert_close(found, expected)
        assert torch.equal(found, core.step(x)[0])
    other.reset()
    torch.testing.assert_close(other.step(x)[0], model(x)[0])


def header_of(path: Path) -> dict[str, str]:
    with safe_open(path, framework="pt") as file:
        return dict(file.metadata())


def written(path: Path, header: dict[str, str]) -> None:
    with safe_open(path, framework="pt") as file:
        arrays = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    save_file(arrays, path, header)


def refused(path: Path, code: str) -> GraphFileError:
    with pytest.raises(GraphFileError) as caught:
        load(path)
    assert caught.value.code == code
    return caught.value


def test_a_missing_file(tmp_path: Path) -> None:
    assert "No such file" in str(refused(tmp_path / "none.marble", "TP0360"))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_file_that_is_cut_off(path: Path, share: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    refused(path, "TP0361")


def test_a_changed_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    assert "checksum" in str(refused(path, "TP0364"))


def test_a_newer_version(path: Path) -> None:
    written(path, header_of(path) | {"version": "99"})
    assert "version 99" in str(refused(path, "TP0363"))


def test_another_safetensors_file(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "a.marble")
    assert "no graph of neurons" in str(refused(tmp_path / "a.marble", "TP0361"))


def with_structure(path: Path, change: object) -> None:
    """The file with another structure and a checksum that fits it: what a bug or an enemy could write."""
    from torchport.targets.marble.files.native import _checksum

    header = header_of(path)
    data = json.loads(header["structure"])
    change(data)  # type: ignore[operator]
    structure = json.dumps(data)
    with safe_open(path, framework="pt") as file:
        arrays = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    save_file(arrays, path, header | {"structure": structure, "checksum": _checksum(structure, arrays)})


def _steps(data: dict[str, dict[str, list[dict[str, object]]]]) -> list[dict[str, object]]:
    return [step for step in data["graph"]["steps"] if "assembly" in step]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["graph"]["outputs"].__setitem__(0, "nowhere"),
        lambda data: data["graph"]["steps"].reverse(),
        lambda data: data.pop("graph"),
        lambda data: data.__setitem__("next_id", 3),
        lambda data: data["names"].__setitem__("0.weight", "nothing"),
        lambda data: _steps(data)[0].__setitem__("operation", "prims.device_put.default"),
        lambda data: _steps(data)[0].__setitem__("operation", "os.system"),
        lambda data: _steps(data)[0]["groups"][0].__setitem__("first", 0),
        lambda data: _steps(data)[0]["groups"][0].__setitem__("work", "aten.save.default"),
        lambda data: _steps(data)[0]["groups"][0].__setitem__("results", [["float32", 1, 7]]),
        lambda data: _steps(data)[0]["groups"][0].__setitem__("results", [["float32", 1, -6]]),
        lambda data: _steps(data)[0]["groups"][0].__setitem__("results", 5),
        lambda data: _steps(data)[0]["groups"][0]["weights"].__setitem__("weight", "0.bias"),
        lambda data: _steps(data)[0]["groups"][0].__setitem__("kind", "input"),
        lambda data: _steps(data)[0].__setitem__("args", [{"value": "nowhere"}]),
    ],
)
def test_a_structure_that_does_not_hold(path: Path, change: object) -> None:
    with_structure(path, change)
    refused(path, "TP0362")


def test_a_save_that_fails_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchport.targets.marble.files import native

    def fail(*given: object) -> None:
        raise OSError(28, "No space left on device")

    before = path.read_bytes()
    core = load(path)
    monkeypatch.setattr(native, "save_file", fail)
    with pytest.raises(Exception, match="No space left"):
        save(core, path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


# The journal


def journalled(path: Path) -> Core:
    return load(path, journal=True)


def test_changes_are_there_after_a_crash(path: Path) -> None:
    core = journalled(path)
    sums = core.groups()[1].ids
    more = core.add_neuron_group(2, name="more", bias=[0.25, 0.5])
    core.connect(sums[:3], more, torch.arange(6).reshape(2, 3) / 7)
    core.prune(fraction=0.1)
    core.undo()
    core.set_weights([(more.takes[0], 1)], 0.125)
    other = load(path)
    assert torch.equal(other.run(X)[0], core.run(X)[0])
    assert other.synapses.of(more.takes[0]) == core.synapses.of(more.takes[0])
    assert other.version.number == core.version.number


def test_a_record_that_was_cut_off_was_never_made(path: Path) -> None:
    core = journalled(path)
    core.add_neuron_group(1, name="one")
    core.add_neuron_group(1, name="two")
    journal = path.with_name(f"{path.name}.journal")
    whole = journal.read_bytes()
    starts = [0, *(index + 1 for index, byte in enumerate(whole) if byte == 10)]
    for cut in range(starts[2] + 1, len(whole)):
        journal.write_bytes(whole[:cut])
        assert [group.name for group in load(path).groups()][-1] == "one"
    journal.write_bytes(whole)
    assert [group.name for group in load(path).groups()][-1] == "two"
    journal.write_bytes(whole[:-5])
    load(path, journal=True).add_neuron_group(1, name="three")
    assert [group.name for group in load(path).groups()][-2:] == ["one", "three"], (
        "it goes on after what was whole"
    )


def test_a_damaged_journal_is_refused(path: Path) -> None:
    core = journalled(path)
    core.add_neuron_group(1, name="one")
    core.add_neuron_group(1, name="two")
    journal = path.with_name(f"{path.name}.journal")
    data = bytearray(journal.read_bytes())
    data[150] ^= 1
    journal.write_bytes(data)
    assert "damaged" in str(refused(path, "TP0361"))


def test_an_old_journal_does_not_count_after_a_save(path: Path) -> None:
    core = journalled(path)
    core.add_neuron_group(1, name="one")
    old = path.with_name(f"{path.name}.journal").read_bytes()
    save(core, path)
    path.with_name(f"{path.name}.journal").write_bytes(old)
    assert [group.name for group in load(path).groups()].count("one") == 1
    save(convert_model(mlp(), X), path)
    assert not path.with_name(f"{path.name}.journal").exists()
    path.with_name(f"{path.name}.journal").write_bytes(old)
    assert "one" not in [group.name for group in load(path).groups()], "the same graph, but another writing"


def test_a_change_that_cannot_be_written_is_not_made(path: Path) -> None:
    core = journalled(path)
    before = core.version
    journal = path.with_name(f"{path.name}.journal")
    journal.unlink()
    journal.mkdir()
    with pytest.raises(NeuronError, match="could not be written"):
        core.add_neuron_group(1, name="one")
    assert core.version is before
