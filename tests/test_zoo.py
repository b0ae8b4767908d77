"""The zoo's entries are SPECs, and what was proven before is not proven again unless the sources changed."""

from __future__ import annotations

from pathlib import Path

import pytest

import benchmarks.drawn
from benchmarks import zoo
from benchmarks.proving import campaign
from benchmarks.proving.subjects import Model, Proof
from torchport.capture.spec import load_spec


@pytest.mark.parametrize("name", ["mlp", "cnn", "cnn_elsewhere"])
def test_an_entry_is_a_spec(name: str) -> None:
    loaded = load_spec(f"benchmarks.zoo:{name}")
    with_args = loaded.model(*loaded.args, **loaded.kwargs)
    assert with_args.isfinite().all()


def test_every_other_size_belongs_to_an_entry() -> None:
    assert set(zoo.OTHER_SIZES) <= set(zoo.ZOO) and set(zoo.PROVEN) <= set(zoo.ZOO)


@pytest.mark.slow
def test_an_architecture_is_drawn_by_a_name_of_its_source() -> None:
    with pytest.raises(AttributeError):
        benchmarks.drawn.resnet18  # noqa: B018
    model, args, inputs = benchmarks.drawn.hf__BertModel()
    assert model(*args, **inputs)[0].shape == (1, 16, 64)


def proof(name: str, outcome: str) -> Proof:
    return Proof(name, outcome, 3, 0.5, 1.0, "" if outcome == "pass" else "it differs")  # type: ignore[arg-type]


def test_what_passed_is_not_run_again_and_what_failed_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def prove(model: Model, folder: Path, most_seconds: float) -> Proof:
        ran.append(model.name)
        return proof(model.name, "pass" if model.name == "good" else "fail")

    monkeypatch.setattr(campaign, "prove", prove)
    models = [Model("good", "x:good"), Model("bad", "x:bad")]
    campaign.run(models, tmp_path)
    campaign.run(models, tmp_path)
    assert ran == ["good", "bad", "bad"]
    assert "1/2 good: pass: 3 layers, nearest 0.50 of the limit (before)" in capsys.readouterr().out
    monkeypatch.setattr(campaign, "source_digest", lambda: "other sources")
    campaign.run(models, tmp_path)
    assert ran == ["good", "bad", "bad", "good", "bad"]
