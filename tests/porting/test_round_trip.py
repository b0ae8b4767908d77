"""A model without values becomes a port, gets its weights from a checkpoint, and is proven a part at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from torchport.capture.recorder import record, record_graph, record_streamed
from torchport.errors import TorchportError
from torchport.events import ignore
from torchport.porting.extracting import extract_weights
from torchport.porting.port import Port, port
from torchport.targets.candle import streaming
from torchport.weights.loaded import LoadedWeights

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
    records = [made.files.record(mode) for mode in ("lockstep", "chained")]
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

        report = proof.prove(made, made.files.on_other_inputs(), made.graph, NOISE_FLOOR, Steps())
        assert report.first_divergence is not None and report.first_divergence.layer == "blocks.1.fc2"
    finally:
        stored.unlink()
        stored.write_bytes(sound)


@pytest.mark.zoo
def test_a_model_whose_weights_exceed_a_limit_of_the_process_is_proven_under_it(
    tmp_path: Path, cargo: str
) -> None:
    """The limit is RLIMIT_DATA, for all memory that is not of a file; the program runs under the same one."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.porting.limited", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root, timeout=800)
    assert done.returncode == 0, done.stderr
    status, limit, weights = done.stdout.split()[-3:]
    assert status == "pass" and int(weights) > int(limit)
