"""A model without values becomes a port, gets its weights from a checkpoint, and is proven a part at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from torchport.capture.recorder import record, record_graph, record_streamed
from torchport.errors import TorchportError
from torchport.events import ignore
from torchport.porting.extracting import extract_weights
from torchport.porting.port import OTHER_INPUTS, Port, port
from torchport.targets.candle import streaming
from torchport.weights.loaded import LoadedWeights
from torchport.weights.origin import independent

from .large_model import large, large_on_meta


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Port:
    """A port of a model on the meta device, which has got its weights."""
    folder = tmp_path_factory.mktemp("round-trip")
    model, args = large_on_meta()
    made = port(model, args, out=folder / "port", name="large")
    torch.save({"model": large().state_dict()}, folder / "checkpoint.pt")
    stored = made.artifact.stored
    assert stored is not None and not stored.exists()
    given = {"rules": None, "prefixes": (), "recorded_buffers": True, "watch": ignore}
    extract_weights([folder / "checkpoint.pt"], made.files.manifest, out=stored, **given)
    return made


def test_buffers_that_have_values_are_recorded_of_a_model_that_has_no_others(made: Port) -> None:
    recorded = load_file(made.files.captured("weights"))
    assert recorded.keys() == {"scale"} and torch.equal(recorded["scale"], large().scale)


def test_a_model_that_is_filled_as_it_runs_computes_what_it_computes_with_all_its_weights(
    made: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchport.capture import streamed

    monkeypatch.setattr(streamed, "PART_BYTES", 2**12)
    model, args = large_on_meta()
    assert made.artifact.stored is not None
    filled = record_streamed(model, made.graph, LoadedWeights(made.artifact.stored, made.graph), args, {})
    whole = record_graph(large(), made.graph, {}, args, {})
    assert filled.golden.keys() == whole.golden.keys() and filled.truth.keys() == whole.truth.keys()
    assert all(torch.equal(filled.golden[key], value) for key, value in whole.golden.items())
    assert all(parameter.is_meta for parameter in model.parameters())


def test_no_part_of_a_model_is_filled_while_another_runs(made: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchport.capture import streamed

    monkeypatch.setattr(streamed, "PART_BYTES", 2**12)
    model, args = large_on_meta()
    blocks = list(model.blocks)
    seen = []

    def look(*_: object) -> None:
        seen.append([not all(p.is_meta for p in block.parameters()) for block in blocks])

    for block in blocks:
        block.fc1.register_forward_hook(look)
    assert made.artifact.stored is not None
    record_streamed(model, made.graph, LoadedWeights(made.artifact.stored, made.graph), args, {})
    assert seen == [[index == at for index in range(len(blocks))] for at in range(len(blocks))]


def test_without_inputs_or_with_inputs_on_meta_the_next_step_is_said(made: Port) -> None:
    with pytest.raises(TorchportError, match="TP0702") as raised:
        made.check()
    assert raised.value.fix is not None and "torchport check DIR SPEC" in raised.value.fix
    with pytest.raises(TorchportError, match="TP0801.*no values"):
        made.check(torch.zeros(2, 5, dtype=torch.int64, device="meta"))


def test_weights_that_were_not_extracted_are_said_to_be_missing(tmp_path: Path) -> None:
    model, args = large_on_meta()
    bare = port(model, args, out=tmp_path / "port", name="large")
    with pytest.raises(TorchportError, match="TP0320.*no weights file") as raised:
        bare.check(args)
    assert raised.value.fix is not None and "torchport weights extract" in raised.value.fix


def test_weights_are_streamed_that_are_large_and_read_by_calls_that_are_seen(made: Port) -> None:
    reads = streaming.reads(made.graph)
    assert reads["embed"] == reads["head"] == ["embed.weight"]
    assert reads["blocks.1.attention"] == [
        "blocks.1.attention.in_proj_weight",
        "blocks.1.attention.out_proj.weight",
    ]
    assert not any("norm" in name or "bias" in name for names in reads.values() for name in names)
    recurrent = record(torch.nn.Sequential(torch.nn.LSTM(512, 512)), torch.zeros(2, 3, 512), variants=False)
    assert not streaming.reads(recurrent.graph)


def test_a_port_is_proven_and_streaming_computes_the_same(
    made: Port, cargo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, args = large_on_meta()
    made.model = model
    report = made.check(args)
    assert report.passed and len(report.layers) == 18
    files = made.files.check(OTHER_INPUTS, OTHER_INPUTS)
    records = [files.record(mode) for mode in ("lockstep", "chained")]
    before = [path.read_bytes() for path in records]
    monkeypatch.setattr(streaming, "is_worth_it", lambda weights: True)
    assert made.check(args).passed
    assert [path.read_bytes() for path in records] == before


def test_a_wrong_weight_is_found(made: Port, cargo: str) -> None:
    """The golden values are of the weights that the recording was made with, so a later change is seen."""
    from safetensors.torch import save_file

    model, args = large_on_meta()
    made.model = model
    assert made.check(args).passed
    stored = made.artifact.stored
    assert stored is not None
    sound = stored.read_bytes()
    try:
        wrong = load_file(stored)
        wrong["blocks.1.fc2.bias"] += 0.01
        stored.unlink()
        save_file(wrong, stored)
        from torchport.events import Steps
        from torchport.parity.rulebook import NOISE_FLOOR
        from torchport.porting import proof

        report = proof.prove(
            made, made.files.check(OTHER_INPUTS, OTHER_INPUTS), made.graph, NOISE_FLOOR, Steps()
        )
        assert report.first_divergence is not None and report.first_divergence.layer == "blocks.1.fc2"
    finally:
        stored.unlink()
        stored.write_bytes(sound)


# Which weight is which


def extracted_otherwise(made: Port, folder: Path, rules: str) -> None:
    (folder / "rules.yaml").write_text(rules)
    assert made.artifact.stored is not None
    given = {"prefixes": (), "recorded_buffers": True, "watch": ignore}
    checkpoint = made.files.path.parent / "checkpoint.pt"
    extract_weights(
        [checkpoint], made.files.manifest, out=made.artifact.stored, rules=folder / "rules.yaml", **given
    )


@pytest.fixture
def restored(made: Port) -> Iterator[Path]:
    """The file that the port loads, which is as it was afterwards."""
    stored = made.artifact.stored
    assert stored is not None
    note = stored.with_name(f"{stored.name}.origin.json")
    before = stored.read_bytes(), note.read_bytes()
    yield stored
    stored.unlink()
    stored.write_bytes(before[0])
    note.write_bytes(before[1])


EXCHANGED = r"""
rules:
  - {rename: 'blocks\.0\.fc1\.(.*)', to: 'kept.\1'}
  - {rename: 'blocks\.1\.fc1\.(.*)', to: 'blocks.0.fc1.\1'}
  - {rename: 'kept\.(.*)', to: 'blocks.1.fc1.\1'}
"""
TURNED = "rules: [{transpose: 'blocks\\.2\\.attention\\.out_proj\\.weight'}]"


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [
        (EXCHANGED, {f"blocks.{block}.fc1.{kind}" for block in (0, 1) for kind in ("weight", "bias")}),
        (TURNED, {"blocks.2.attention.out_proj.weight"}),
    ],
    ids=["two layers exchanged", "a square matrix turned"],
)
def test_golden_values_are_of_the_checkpoint_and_not_of_what_rules_made(
    made: Port, restored: Path, tmp_path: Path, rules: str, wrong: set[str]
) -> None:
    extracted_otherwise(made, tmp_path, rules)
    with independent(restored, made.graph) as (weights, mapping):
        assert mapping is not None and f"{len(wrong)} of " in mapping and "without rules" in mapping
        found = {name: weights.read(name) for name in weights.names()}
    state = large().state_dict() | {"scale": large().scale}
    assert found.keys() == state.keys()
    assert all(torch.equal(tensor, state[name]) for name, tensor in found.items())
    loaded = LoadedWeights(restored, made.graph)
    assert {name for name in found if not torch.equal(found[name], loaded.read(name))} == wrong


def test_rules_that_exchange_two_layers_are_a_divergence(
    made: Port, restored: Path, tmp_path: Path, cargo: str
) -> None:
    extracted_otherwise(made, tmp_path, EXCHANGED)
    made.model, args = large_on_meta()
    report = made.check(args, explain=False)
    assert report.first_divergence is not None and report.first_divergence.layer == "blocks.0.fc1"
    assert "4 of 31 weights that the port loads are not what checkpoint.pt has" in report.notes[0]


def test_a_mapping_that_nothing_can_prove_is_said_first(made: Port, restored: Path, tmp_path: Path) -> None:
    with independent(restored, made.graph) as (_, mapping):
        assert mapping is None
    renamed = {f"decoder.{name}": tensor for name, tensor in large().state_dict().items()}
    renamed["decoder.norm"] = renamed.pop("decoder.blocks.0.norm.weight")
    torch.save(renamed, tmp_path / "other.pt")
    (tmp_path / "rules.yaml").write_text(
        r"rules: [{rename: 'decoder\.norm', to: 'blocks.0.norm.weight'}, {rename: 'decoder\.(.*)', to: '\1'}]"
    )
    given = {"prefixes": (), "recorded_buffers": True, "watch": ignore}
    extract_weights(
        [tmp_path / "other.pt"], made.files.manifest, out=restored, rules=tmp_path / "rules.yaml", **given
    )
    with independent(restored, made.graph) as (weights, mapping):
        assert mapping is not None and "not proven: the checkpoint does not have every parameter" in mapping
        assert isinstance(weights, LoadedWeights)
    (tmp_path / "other.pt").unlink()
    with independent(restored, made.graph) as (_, mapping):
        assert mapping is not None and "other.pt is not there any more" in mapping
    restored.with_name(f"{restored.name}.origin.json").write_text("{}")
    with independent(restored, made.graph) as (_, mapping):
        assert mapping is not None and "nothing says which checkpoint" in mapping


@pytest.mark.zoo
@pytest.mark.parametrize("limited", ["data", "space"])
def test_a_model_whose_weights_exceed_a_limit_of_the_process_is_proven_under_it(
    tmp_path: Path, cargo: str, limited: str
) -> None:
    """Limited is memory that is not of a file, or addresses (`ulimit -v`); the program runs under the same limit."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.porting.limited", str(tmp_path), limited]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root, timeout=800)
    assert done.returncode == 0, done.stderr
    status, exceeded, weights = done.stdout.split()[-3:]
    assert status == "pass" and int(weights) > int(exceeded)
