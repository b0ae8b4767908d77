"""Extraction: exactly what the port loads, from any source. What does not fit is refused; no output is half there."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from torchport.errors import TorchportError
from torchport.events import ignore
from torchport.porting.extracting import extract_weights, inspect_checkpoint, map_checkpoint

from .checkpoints import net, recorded, saved

State = Mapping[str, torch.Tensor]


@pytest.fixture(scope="module")
def state() -> dict[str, torch.Tensor]:
    return dict(net().state_dict())


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("net"))


def extracted(checkpoint: Path, manifest: Path, **given: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"out": checkpoint.with_name("out.safetensors"), "rules": None, "prefixes": ()}
    return extract_weights(
        [checkpoint], manifest, watch=ignore, **({"recorded_buffers": True} | options | given)
    )


def must_be_the_models(out: Path) -> None:
    """The file has what the port loads: tied weights once, buffers that are read, and bools as bytes."""
    found, own = load_file(out), net()
    expected = {
        "embed.weight": own.embed.weight,
        "fc.weight": own.fc.weight,
        "fc.bias": own.fc.bias,
        **{
            f"norm.{name}": tensor
            for name, tensor in own.norm.state_dict().items()
            if name != "num_batches_tracked"
        },
        "mask": own.mask.to(torch.uint8),
    }
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name


def sharded(folder: Path, state: State) -> Path:
    names = sorted(state)
    shards = {"model-00001-of-00002.safetensors": names[:3], "model-00002-of-00002.safetensors": names[3:]}
    folder.mkdir()
    for file, own in shards.items():
        save_file({name: state[name].clone() for name in own}, folder / file)
    index = {name: file for file, own in shards.items() for name in own}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return folder / "model.safetensors.index.json"


def plain(state: State) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in state.items()}


SOURCES: dict[str, Callable[[Path, State], Path]] = {
    "safetensors": lambda at, state: (save_file(plain(state), at / "a.safetensors"), at / "a.safetensors")[1],
    "pt": lambda at, state: saved(at / "a.pt", dict(state)),
    "nested": lambda at, state: saved(at / "a.pth", {"state_dict": dict(state), "epoch": 3}),
    "parallel": lambda at, state: saved(at / "a.bin", {f"module.{name}": one for name, one in state.items()}),
    "index": lambda at, state: sharded(at / "shards", state),
    "folder": lambda at, state: sharded(at / "shards", state).parent,
}


WRITTEN = ["out.safetensors", "out.safetensors.origin.json"]


@pytest.mark.parametrize("kind", SOURCES)
def test_from_every_source_the_port_gets_what_it_loads(
    tmp_path: Path, manifest: Path, state: State, kind: str
) -> None:
    result = extracted(SOURCES[kind](tmp_path, state), manifest, out=tmp_path / "out.safetensors")
    must_be_the_models(tmp_path / "out.safetensors")
    assert result["status"] == "extracted" and result["recorded"] == ["mask"]
    assert sorted(path.name for path in tmp_path.iterdir() if "out" in path.name) == WRITTEN


def test_a_moving_average_beside_the_model_is_ambiguous_until_one_is_chosen(
    tmp_path: Path, manifest: Path, state: State
) -> None:
    average = {name: tensor.clone() + 1 for name, tensor in state.items() if tensor.is_floating_point()}
    path = saved(tmp_path / "a.pt", {"model": dict(state), "ema": average})
    dry = extracted(path, manifest, out=None)
    assert dry["status"] == "incomplete" and dry["ambiguous"] == ["ema.", "model."]
    with pytest.raises(TorchportError, match="TP0324"):
        extracted(path, manifest)
    extracted(path, manifest, prefixes=["model."])
    must_be_the_models(tmp_path / "out.safetensors")
    extracted(path, manifest, prefixes=["ema.", "model."])
    assert torch.equal(load_file(tmp_path / "out.safetensors")["fc.bias"], average["fc.bias"])
    with pytest.raises(TorchportError, match="no name in the checkpoint begins with 'emma.'"):
        extracted(path, manifest, prefixes=["emma."])


def test_a_dtype_that_holds_every_value_is_widened_and_another_needs_a_rule(
    tmp_path: Path, manifest: Path, state: State
) -> None:
    half = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in state.items()}
    result = extracted(saved(tmp_path / "a.pt", half), manifest)
    assert result["cast"]["fc.weight"] == "float16"
    assert torch.equal(
        load_file(tmp_path / "out.safetensors")["fc.weight"], state["fc.weight"].half().float()
    )
    wide = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in state.items()}
    path = saved(tmp_path / "b.pt", wide)
    with pytest.raises(TorchportError, match=r"TP0321.*is of float64, and the port loads float32"):
        extracted(path, manifest)
    (tmp_path / "rules.yaml").write_text("rules: [{cast: '.*(weight|bias|mean|var)'}]")
    extracted(path, manifest, rules=tmp_path / "rules.yaml")
    must_be_the_models(tmp_path / "out.safetensors")


def test_tied_weights_that_differ_in_the_checkpoint_are_refused(
    tmp_path: Path, manifest: Path, state: State
) -> None:
    untied = plain(state) | {"head.weight": state["head.weight"] + 1}
    with pytest.raises(TorchportError, match=r"TP0326.*embed.weight and head.weight, which differ"):
        extracted(saved(tmp_path / "a.pt", untied), manifest)
    extracted(saved(tmp_path / "b.pt", plain(state)), manifest)
    must_be_the_models(tmp_path / "out.safetensors")
    alone = {name: tensor for name, tensor in state.items() if name != "embed.weight"}
    extracted(saved(tmp_path / "c.pt", alone), manifest)
    must_be_the_models(tmp_path / "out.safetensors")


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path, manifest: Path) -> None:
    save_file({"conv.weight": torch.ones(3)}, tmp_path / "a.safetensors")
    (tmp_path / "out.safetensors").write_text("what was there before")
    with pytest.raises(TorchportError, match="TP0320.*does not have any of the weights"):
        extracted(tmp_path / "a.safetensors", recorded(tmp_path / "meta", values=False))
    with pytest.raises(TorchportError, match="TP0320"):
        extracted(tmp_path / "a.safetensors", manifest)
    assert (tmp_path / "out.safetensors").read_text() == "what was there before"


def test_a_shape_that_does_not_fit_is_refused_with_a_suggestion(
    tmp_path: Path, manifest: Path, state: State
) -> None:
    other = plain(state) | {"embed.weight": state["embed.weight"].T, "head.weight": state["head.weight"].T}
    with pytest.raises(TorchportError, match="TP0321.*embed.weight has the shape") as raised:
        extracted(saved(tmp_path / "a.pt", other), manifest)
    assert raised.value.fix == "Perhaps embed.weight is to be transposed."


def test_what_no_checkpoint_has_is_missing_if_it_was_not_recorded(tmp_path: Path, state: State) -> None:
    path = saved(tmp_path / "a.pt", dict(state))
    bare = recorded(tmp_path / "meta", values=False)
    assert extracted(path, bare, out=None)["missing"] == ["mask"]
    with pytest.raises(TorchportError, match="TP0320.*mask"):
        extracted(path, bare)


def test_a_buffer_that_is_called_otherwise_is_not_taken_from_the_recording(
    tmp_path: Path, manifest: Path, state: State
) -> None:
    other = {name.replace("running_mean", "moving_mean"): one for name, one in state.items()}
    path = saved(tmp_path / "a.pt", other)
    with pytest.raises(TorchportError, match="TP0320.*norm.running_mean") as raised:
        extracted(path, manifest, recorded_buffers=False)
    assert raised.value.fix is not None and "norm.moving_mean" in raised.value.fix


def test_a_map_of_other_names_is_made_and_gives_the_same_weights(
    tmp_path: Path, manifest: Path, state: State
) -> None:
    names = {"fc": "layers.fc_linear", "norm": "layers.bn_norm", "embed": "tok.embed", "head": "head"}
    other = {
        f"{names[name.partition('.')[0]]}.{name.partition('.')[2]}": one for name, one in plain(state).items()
    }
    path = saved(tmp_path / "a.pt", {"net": other})
    found = map_checkpoint([path], manifest, out=tmp_path / "rules.yaml", prefixes=["net."])
    assert len(found["missing"]) == 7 and len(found["suggestions"]) == 6, found
    extracted(path, manifest, rules=tmp_path / "rules.yaml")
    must_be_the_models(tmp_path / "out.safetensors")


def test_a_truncated_shard_is_named(tmp_path: Path, manifest: Path, state: State) -> None:
    index = sharded(tmp_path / "shards", state)
    shard = index.with_name("model-00002-of-00002.safetensors")
    shard.write_bytes(shard.read_bytes()[:-3])
    with pytest.raises(TorchportError, match="TP0322.*model-00002-of-00002.safetensors is cut off"):
        extracted(index, manifest, out=tmp_path / "out.safetensors")
    shard.unlink()
    with pytest.raises(TorchportError, match="TP0322.*names shards that are not there: model-00002"):
        extracted(index, manifest, out=tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


def test_a_full_disk_leaves_nothing_and_keeps_what_was_there(
    tmp_path: Path, manifest: Path, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchport.weights import writing

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "out.safetensors").write_text("before")
    monkeypatch.setattr(writing, "_copy", full)
    with pytest.raises(TorchportError, match="TP0330.*No space left"):
        extracted(saved(tmp_path / "a.pt", dict(state)), manifest)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pt", "out.safetensors"]
    assert (tmp_path / "out.safetensors").read_text() == "before"


def test_too_little_room_is_said_before_anything_is_written(
    tmp_path: Path, manifest: Path, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchport.weights import writing

    monkeypatch.setattr(writing, "_SPARE", 2**60)
    with pytest.raises(TorchportError, match="TP0330.*GB free"):
        extracted(saved(tmp_path / "a.pt", dict(state)), manifest)
    assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]


@pytest.mark.parametrize("kind", ["a folder", "a file in the way", "the checkpoint"])
def test_an_output_that_cannot_be_is_refused(tmp_path: Path, manifest: Path, state: State, kind: str) -> None:
    path = saved(tmp_path / "a.pt", dict(state))
    before = path.read_bytes()
    (tmp_path / "folder").mkdir()
    outs = {"a folder": tmp_path / "folder", "a file in the way": path / "out", "the checkpoint": path}
    with pytest.raises(TorchportError, match=r"TP0330|TP0323"):
        extracted(path, manifest, out=outs[kind])
    assert path.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.pt", "folder"]


def test_what_was_written_is_read_back(
    tmp_path: Path, manifest: Path, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchport.weights import writing

    copy = writing._copy

    def torn(file: Any, place: Any, progress: Any) -> int:
        checksum = copy(file, place, progress)
        file.seek(place.start)
        file.write(b"\x01")
        file.flush()
        return checksum

    monkeypatch.setattr(writing, "_copy", torn)
    with pytest.raises(TorchportError, match="TP0325"):
        extracted(saved(tmp_path / "a.pt", dict(state)), manifest)
    assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]


def killed_after_three(path: Path, manifest: Path, out: Path) -> None:
    """Extracts in another process, which is killed when three tensors are complete."""
    from torchport.weights import writing

    child = os.fork()
    if child == 0:
        note = writing.Journal.note

        def noted(journal: writing.Journal, name: str, checksum: int) -> None:
            note(journal, name, checksum)
            if len(journal.read()) == 3:
                os.kill(os.getpid(), signal.SIGKILL)

        writing.Journal.note = noted  # type: ignore[method-assign]
        try:
            extracted(path, manifest, out=out)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("spoiled", [False, True])
def test_a_killed_extraction_goes_on_where_it_was_and_trusts_nothing(
    tmp_path: Path, manifest: Path, state: State, spoiled: bool
) -> None:
    path, out = saved(tmp_path / "a.pt", dict(state)), tmp_path / "out.safetensors"
    killed_after_three(path, manifest, out)
    partial = tmp_path / ".out.safetensors.partial"
    assert partial.exists() and not out.exists()
    names = [json.loads(line)["name"] for line in Path(f"{partial}.journal").read_text().splitlines()[1:]]
    assert len(names) == 3
    if spoiled:
        header = int.from_bytes(partial.read_bytes()[:8], "little")
        start = json.loads(partial.read_bytes()[8 : 8 + header])[names[0]]["data_offsets"][0]
        with partial.open("r+b") as file:
            file.seek(8 + header + start)
            file.write(b"\xff")
    result = extracted(path, manifest)
    sizes = {name: tensor.nbytes for name, tensor in load_file(out).items()}
    assert result["resumed_bytes"] == sum(sizes[name] for name in names[spoiled:])
    must_be_the_models(out)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.pt", *WRITTEN]


def test_a_partial_file_of_something_else_is_not_gone_on_with(
    tmp_path: Path, manifest: Path, state: State
) -> None:
    partial = tmp_path / ".out.safetensors.partial"
    partial.write_bytes(b"x" * 10_000)
    Path(f"{partial}.journal").write_text('{"of": "another"}\n{"name": "fc.weight", "crc32": 3}\n')
    result = extracted(saved(tmp_path / "a.pt", dict(state)), manifest)
    assert result["resumed_bytes"] == 0
    must_be_the_models(tmp_path / "out.safetensors")


def test_two_at_a_time_are_refused(tmp_path: Path, manifest: Path, state: State) -> None:
    import fcntl

    with (tmp_path / ".out.safetensors.partial").open("w+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(TorchportError, match="written by another process"):
            extracted(saved(tmp_path / "a.pt", dict(state)), manifest)
    assert (tmp_path / ".out.safetensors.partial").exists()


def test_inspect_shows_sections_and_what_is_no_tensor(tmp_path: Path, state: State) -> None:
    path = saved(tmp_path / "a.pt", {"state_dict": dict(state), "epoch": 3})
    found = inspect_checkpoint([path])
    assert found["sections"]["state_dict"] == found["count"] == len(state) and found["skipped"] == ["epoch"]
    assert found["tensors"]["state_dict.fc.weight"] == {"dtype": "float32", "shape": [8, 8], "bytes": 256}
