"""A sample of the campaign of planted faults, and that the campaign can be trusted; `make faults` runs it all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.faults.bins import bins, floors_moved
from benchmarks.faults.campaign import Subject
from benchmarks.faults.cli import check
from benchmarks.faults.effect import NOTHING, effect_of
from benchmarks.faults.in_layers import GRAPH
from benchmarks.faults.in_source import SOURCE
from benchmarks.faults.in_weights import WEIGHTS
from benchmarks.faults.kinds import KINDS
from benchmarks.faults.outcome import Outcome, good_enough, missed, table
from benchmarks.faults.rewrite import plant, sites
from torchport.explain.slice import own_operations

SAMPLE = {
    "cnn": ["dilation dropped", "epsilon", "padding", "weight of a neighbour"],
    "rotary": ["causal off by one", "heads split wrongly", "rotary halves swapped"],
    "decoder": ["NaN in one element", "softmax axis", "tied weight untied"],
    "tagger": ["GRU gate order", "LSTM gate order"],
}


@pytest.fixture(scope="module", params=SAMPLE)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return Subject(request.param, tmp_path_factory.mktemp(request.param))


@pytest.mark.builds
def test_port_without_a_fault_passes(subject: Subject) -> None:
    assert subject.false_alarm() is None


@pytest.mark.builds
def test_planted_faults_are_detected_and_traced_to_their_layer(subject: Subject) -> None:
    planted = list(subject.all_faults(SAMPLE[subject.name]))
    assert {fault.kind for fault in planted} == set(SAMPLE[subject.name])
    outcomes = [check(subject, fault) for fault in planted]
    assert missed(outcomes) == []


@pytest.mark.slow
def test_planted_fault_moves_its_layer_by_more_than_noise(subject: Subject) -> None:
    for fault in subject.all_faults(SAMPLE[subject.name]):
        assert fault.effect.is_real
        assert fault.effect.owner in (fault.culprit, None)


@pytest.mark.slow
def test_graph_without_a_fault_has_no_effect(subject: Subject) -> None:
    capture = subject.capture
    assert effect_of(capture, capture.graph, capture.weights) == NOTHING


@pytest.mark.slow
def test_fault_is_planted_too_when_the_layer_is_converted_by_itself(subject: Subject) -> None:
    graph, plan = subject.capture.graph, subject.capture.plan
    sizes = {
        item.name: subject.capture.golden[f"{plan.root}<{i}"].shape
        for i, item in enumerate(graph.root.inputs)
    }
    (rewrite, *_) = GRAPH["transposed weight"]
    for site in sites(graph, rewrite):
        call = next(call.name for call in plan.calls.values() if call.module == site.module)
        alone = own_operations(graph, plan, call, graph.bindings(sizes))
        assert alone is not None
        assert plant(alone.graph, rewrite, site) != alone.graph


def test_every_kind_can_be_planted() -> None:
    assert {*GRAPH, *WEIGHTS, *SOURCE, "tied weight untied"} == set(KINDS)
    assert len(KINDS) >= 25


CAUGHT = Outcome(
    kind="epsilon",
    model="bert",
    way="graph",
    fault="epsilon",
    place="norm/layer_norm",
    culprit="norm",
    floors=70.0,
    status="fail",
    blamed="norm",
    reason="output: far",
    suggestion="eps",
    suggestions=("eps",),
    operation="aten.layer_norm.default",
    seconds=1.0,
)


@pytest.mark.parametrize(
    "miss",
    [
        {"status": "pass", "blamed": None},
        {"status": "error", "blamed": None},
        {"status": "unsupported", "blamed": None},
        {"blamed": "another"},
        {"suggestion": None},
        {"suggestion": "bias"},
    ],
)
def test_campaign_fails_on_a_miss(miss: dict) -> None:
    assert good_enough([CAUGHT], suggestions=True)
    assert not good_enough([replace(CAUGHT, **miss)], suggestions=True)


def test_campaign_that_planted_nothing_fails() -> None:
    assert not good_enough([], suggestions=False)


def test_table_counts_by_kind() -> None:
    rows = table([CAUGHT, replace(CAUGHT, blamed="another")], suggestions=True).splitlines()
    cells = [cell.strip() for cell in rows[2].split("|")[1:-1]]
    assert cells == ["epsilon", "1", "2", "2/2", "1/2", "2/2", "1.0"]


class TestBins:
    def test_elements_of_a_bin_are_of_like_magnitude(self) -> None:
        truth = torch.cat([torch.rand(100) + 1, (torch.rand(100) + 1) * 1e6])
        small, large = bins(truth)
        assert truth[small].max() < 4 < truth[large].min()

    def test_small_bin_is_joined_with_its_neighbour(self) -> None:
        truth = torch.cat([torch.full((63,), 1e-3), torch.ones(64), torch.full((1,), 1e9)])
        assert [len(elements) for elements in bins(truth)] == [128]

    def test_fault_among_small_elements_is_not_hidden_by_large_ones(self) -> None:
        golden = torch.cat([torch.rand(100) + 1, torch.full((100,), -1e9)])
        value = torch.cat([golden[:100] * 1.0003, golden[100:]])
        assert floors_moved(golden, value, None) > 1000
        assert floors_moved(golden, golden, None) == 0

    def test_floor_is_the_distance_of_eager_where_that_is_larger_than_a_rounding(self) -> None:
        golden = torch.ones(100)
        assert floors_moved(golden, golden + 1e-3, torch.full((100,), 1e-4)) == pytest.approx(10, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "culprit"),
    [
        ("masked_by_a_billion", "scale off by 0.03 %", "MaskedAttention"),
        ("masks_through_layers", "scale off by 0.03 %", "scores"),
        ("mixed_scales", "last part of a cat off by 10 %", "parts"),
        ("outliers", "one small channel off by 10 %", "up"),
        ("outlier_pictures", "one small channel off by 10 %", "conv"),
    ],
)
def test_fault_among_small_elements_can_be_planted(
    name: str, kind: str, culprit: str, tmp_path: Path
) -> None:
    planted = list(Subject(name, tmp_path).faults(kind))
    assert planted and {fault.culprit for fault in planted} == {culprit}
