"""What A and B can be: each kind is opened as what it is, and what cannot be read says why."""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import save_file

from torchport.diff.difference import diff
from torchport.diff.sources import Source
from torchport.errors import TorchportError
from torchport.events import ignore

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, 2])}


class NeedsCode:
    """What a pickle can only hold by naming a class."""


def sharded(folder: Path, save: Callable[[dict[str, torch.Tensor], Path], None], ending: str) -> Path:
    folder.mkdir()
    for number, name in enumerate(TENSORS, 1):
        save({name: TENSORS[name]}, folder / f"model-0000{number}-of-00002.{ending}")
    shards = {name: f"model-0000{number}-of-00002.{ending}" for number, name in enumerate(TENSORS, 1)}
    index = folder / f"model.{ending}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": shards}))
    return index


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    save_file(TENSORS, tmp_path / "reference.safetensors")
    return tmp_path / "reference.safetensors"


def failing(path: Path, reference: Path) -> TorchportError:
    """The error that comparing `path` raises, on whichever side it is."""
    with pytest.raises(TorchportError) as as_candidate:
        diff(reference, path)
    with pytest.raises(TorchportError) as as_reference:
        diff(path, reference)
    assert as_reference.value.code == as_candidate.value.code
    assert as_candidate.value.fix
    return as_candidate.value


@pytest.mark.parametrize("ending", ["pt", "pth", "bin", "ckpt"])
@pytest.mark.parametrize("zipped", [True, False])
def test_pytorch_checkpoints_of_either_format(
    tmp_path: Path, reference: Path, ending: str, zipped: bool
) -> None:
    path = tmp_path / f"model.{ending}"
    torch.save(TENSORS, path, _use_new_zipfile_serialization=zipped)
    found = diff(reference, path)
    assert found.passed and found.identical == 2
    torch.save({**TENSORS, "b": torch.tensor([1, 3])}, path, _use_new_zipfile_serialization=zipped)
    assert not diff(reference, path).passed


def test_nested_checkpoints_are_flattened_and_what_is_no_tensor_is_counted(tmp_path: Path) -> None:
    nested = {
        "model": TENSORS,
        "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}, "lr": 0.1},
        "epoch": 3,
    }
    torch.save({**nested, "extra": [torch.ones(2), "text"]}, tmp_path / "a.pt")
    with Source.open(tmp_path / "a.pt") as source:
        assert list(source.tensors) == ["model.a", "model.b", "optimizer.state.0.step", "extra.0"]
        assert source.skipped == ("optimizer.lr", "epoch", "extra.1")
    found = diff(TENSORS, tmp_path / "a.pt", rename=[r"^model\.="], ignore=["optimizer", "extra"])
    assert found.passed
    assert found.warnings == ("B has 3 entries that are no tensors: not compared",)


def test_views_and_shared_tensors_of_a_checkpoint_are_read_as_they_stand(tmp_path: Path) -> None:
    base = torch.randn(6, 5)
    views = {"turned": base.T, "part": base[1:4, ::2], "whole": base, "parameter": torch.nn.Parameter(base)}
    torch.save(views, tmp_path / "a.pt")
    save_file({name: view.detach().clone().contiguous() for name, view in views.items()}, tmp_path / "b")
    assert diff(tmp_path / "b", tmp_path / "a.pt").identical == 4


def test_two_tensors_of_one_flattened_name_are_refused(tmp_path: Path, reference: Path) -> None:
    torch.save({"a": {"b": torch.ones(1)}, "a.b": torch.ones(1)}, tmp_path / "x.pt")
    assert "two tensors that are called a.b" in failing(tmp_path / "x.pt", reference).message


def test_a_checkpoint_that_needs_code_is_refused_and_the_code_not_run(
    tmp_path: Path, reference: Path
) -> None:
    torch.save({"a": torch.ones(2), "config": NeedsCode()}, tmp_path / "x.pt")
    error = failing(tmp_path / "x.pt", reference)
    assert error.code == "TP0322" and "needs Python code" in error.message and "NeedsCode" in error.message
    assert error.fix is not None and "safetensors" in error.fix and "weights_only" not in error.message


@pytest.mark.parametrize("ending", ["safetensors", "bin"])
@pytest.mark.parametrize("given", ["index", "folder", "folder without an index"])
def test_sharded_checkpoints(tmp_path: Path, reference: Path, ending: str, given: str) -> None:
    index = sharded(tmp_path / "shards", save_file if ending == "safetensors" else torch.save, ending)
    if given == "folder without an index":
        index.unlink()
    found = diff(reference, index if given == "index" else index.parent)
    assert found.passed and found.identical == 2
    assert found.b.kind == "sharded checkpoint" and len(found.b.files) == 2


def test_a_folder_with_one_file_of_tensors_is_that_file(tmp_path: Path, reference: Path) -> None:
    (tmp_path / "model").mkdir()
    shutil.copy(reference, tmp_path / "model" / "model.safetensors")
    (tmp_path / "model" / "config.json").write_text("{}")
    found = diff(reference, tmp_path / "model")
    assert found.passed and found.b.files == (str(tmp_path / "model" / "model.safetensors"),)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from torchport.porting.commands import record_spec

    folder = tmp_path_factory.mktemp("capture")
    spec = Path(__file__).parents[2] / "examples" / "mlp.py"
    record_spec(f"{spec}:mlp", name="mlp", out=folder, dynamic=None, hints=None, ops=False, watch=ignore)
    return folder


def test_a_capture_is_its_trace_in_the_order_of_execution(capture: Path) -> None:
    found = diff(capture, capture / "mlp_manifest.json")
    assert found.passed and found.order == "execution"
    assert found.a.kind == found.b.kind == "capture"
    assert found.a.files == (str(capture / "mlp_trace.safetensors"),)
    events = json.loads((capture / "mlp_manifest.json").read_text())["events"]
    left = [call for kind, call in events if kind == "exit"]
    shown = [entry.name for entry in found.entries if entry.name in left]
    assert shown == [call for call in left if call in shown] and len(shown) > 2


def test_the_first_difference_is_the_first_in_the_order_of_execution(capture: Path, tmp_path: Path) -> None:
    with Source.open(capture) as source:
        names = list(source.tensors)
    events = json.loads((capture / "mlp_manifest.json").read_text())["events"]
    outputs = [call for kind, call in events if kind == "exit" and call in names]
    from safetensors.torch import load_file

    tensors = load_file(capture / "mlp_trace.safetensors")
    wrong = {name: tensor + 1 if name in outputs[1:] else tensor for name, tensor in tensors.items()}
    backwards = dict(sorted(wrong.items(), reverse=True))
    save_file(backwards, tmp_path / "candidate.safetensors")
    found = diff(capture / "mlp_trace.safetensors", tmp_path / "candidate.safetensors")
    assert found.order == "execution"
    assert found.first_difference is not None and found.first_difference.name == outputs[1]
    (tmp_path / "alone.safetensors").write_bytes((capture / "mlp_trace.safetensors").read_bytes())
    assert diff(tmp_path / "alone.safetensors", tmp_path / "candidate.safetensors").order == "file"


def a_run(folder: Path, capture: Path, tensors: dict[str, torch.Tensor]) -> Path:
    shutil.copytree(capture, folder / "capture")
    (folder / "run").mkdir()
    save_file(tensors, folder / "run" / "chained.safetensors")
    (folder / "report.json").write_text(json.dumps({"model": "mlp"}))
    return folder


def test_two_runs_are_compared_by_what_the_ports_computed(tmp_path: Path, capture: Path) -> None:
    from safetensors.torch import load_file

    computed = load_file(capture / "mlp_trace.safetensors")
    first = a_run(tmp_path / "first", capture, computed)
    second = a_run(tmp_path / "second", capture, {name: one + 1 for name, one in computed.items()})
    assert diff(first, first).identical == len(computed)
    found = diff(first, second)
    assert not found.passed and found.order == "execution"
    assert found.a.kind == "run" and found.a.files == (str(first / "run" / "chained.safetensors"),)
    assert diff(capture, first / "report.json").passed
    (second / "run" / "chained.safetensors").unlink()
    with pytest.raises(TorchportError) as raised:
        diff(first, second)
    assert raised.value.code == "TP0343"


def test_an_alias_stands_for_its_tensor_and_is_no_name_of_one_side(tmp_path: Path) -> None:
    """A golden trace stores a tensor once that a port writes under each of its names."""
    aliases = {"drop": "block", "drop<0": "block", "unseen": "block"}
    block = torch.arange(4.0)
    save_file({"block": block}, tmp_path / "golden", {"aliases": json.dumps(aliases)})
    save_file({"block": block, "drop": block.clone()}, tmp_path / "port")
    found = diff(tmp_path / "golden", tmp_path / "port")
    assert found.passed and [entry.name for entry in found.entries] == ["block", "drop"]
    assert diff(tmp_path / "port", tmp_path / "golden").passed
    assert len(diff(tmp_path / "golden", tmp_path / "golden").entries) == 1
    save_file({"block": block, "drop": block + 1}, tmp_path / "port")
    wrong = diff(tmp_path / "golden", tmp_path / "port")
    assert wrong.first_difference is not None and wrong.first_difference.name == "drop"


BAD = {
    "missing": (lambda path: None, "is not there"),
    "empty": (lambda path: path.write_bytes(b""), "is empty"),
    "text": (lambda path: path.write_text("hello, this is not a tensor file"), "no file of tensors"),
    "lfs": (lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\noid x\n"), "Git LFS"),
    "short": (lambda path: path.write_bytes(b"PK"), "no file of tensors"),
    "zip": (lambda path: path.write_bytes(b"PK\x03\x04" + b"x" * 99), "no PyTorch checkpoint"),
    "pickle": (lambda path: path.write_bytes(pickle.dumps({"a": NeedsCode})), "no PyTorch checkpoint"),
    "folder": (lambda path: path.mkdir(), "holds no tensors"),
    "pipe": (lambda path: os.mkfifo(path), "not a file that can be read"),
    "header": (
        lambda path: path.write_bytes((9).to_bytes(8, "little") + b'{"a": 3}]'),
        "no safetensors file",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_file_of_tensors_is_said_to_be_none(tmp_path: Path, reference: Path, kind: str) -> None:
    make, said = BAD[kind]
    make(tmp_path / "bad.safetensors")
    error = failing(tmp_path / "bad.safetensors", reference)
    assert error.code == "TP0322" and said in error.message
    assert error.where == str(tmp_path / "bad.safetensors")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("ending", ["safetensors", "pt"])
def test_a_file_that_is_cut_off_is_refused(
    tmp_path: Path, reference: Path, ending: str, share: float
) -> None:
    path = tmp_path / f"cut.{ending}"
    (save_file if ending == "safetensors" else torch.save)(TENSORS, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    error = failing(path, reference)
    assert error.code == "TP0322" and "cut off" in error.message


def test_a_folder_that_could_mean_several_things_asks_which(tmp_path: Path, reference: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for name in ("one", "two"):
        shutil.copy(reference, folder / f"{name}.safetensors")
    error = failing(folder, reference)
    assert (
        error.code == "TP0801" and "one.safetensors" in error.message and "two.safetensors" in error.message
    )


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("not json", "TP0322", "no weight_map"),
        ("[]", "TP0322", "no weight_map"),
        ('{"weight_map": {}}', "TP0322", "index of nothing"),
        ('{"weight_map": {"a": "gone.safetensors"}}', "TP0322", "gone.safetensors"),
        ('{"weight_map": {"c": "model-00001-of-00002.safetensors"}}', "TP0320", "c is in"),
    ],
)
def test_a_wrong_index_says_what_is_wrong(
    tmp_path: Path, reference: Path, text: str, code: str, said: str
) -> None:
    index = sharded(tmp_path / "shards", save_file, "safetensors")
    index.write_text(text)
    error = failing(index, reference)
    assert error.code == code and said in error.message


def test_a_missing_shard_is_noticed_without_an_index(tmp_path: Path, reference: Path) -> None:
    index = sharded(tmp_path / "shards", save_file, "safetensors")
    index.unlink()
    (index.parent / "model-00002-of-00002.safetensors").unlink()
    assert "1 of the 2 shards" in failing(index.parent, reference).message


def test_a_capture_without_values_has_nothing_to_compare(tmp_path: Path, reference: Path) -> None:
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "net_manifest.json").write_text("{}")
    assert failing(tmp_path / "meta", reference).code == "TP0343"


def test_a_dtype_that_cannot_be_compared_is_refused_unless_it_is_ignored() -> None:
    odd = {"x": torch.ones(2), "scale": torch.ones(2).to(torch.float8_e8m0fnu)}
    with pytest.raises(TorchportError) as raised:
        diff(odd, odd)
    assert raised.value.code == "TP0322" and "float8_e8m0fnu" in raised.value.message
    assert diff(odd, odd, ignore=["scale"]).passed


def test_files_are_closed_also_after_an_error(tmp_path: Path, reference: Path) -> None:
    process = psutil.Process()
    before = process.num_fds()
    for _ in range(3):
        diff(reference, reference)
        with pytest.raises(TorchportError):
            diff(reference, {"other": torch.ones(1)})
        with pytest.raises(TorchportError):
            diff(reference, tmp_path / "nowhere")
    assert process.num_fds() == before
