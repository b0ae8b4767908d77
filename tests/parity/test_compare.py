"""The verdict on whole traces: honest ports pass, and a fault is laid where it was made."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from torchport.errors import ManifestError, TraceError
from torchport.parity.compare import compare_traces
from torchport.parity.result import Layer, Parity
from torchport.parity.tolerance import Fixed
from torchport.trace.plan import Call
from torchport.trace.reading import HeldTrace

from .toy import CALLS, HONEST, Port, permuted_linear, run


def layer(parity: Parity, name: str) -> Layer:
    return next(one for one in parity.layers if one.name == name)


def failed(parity: Parity) -> list[str]:
    return [one.name for one in parity.layers if not one.passed]


def test_an_honest_port_passes_at_every_layer(tmp_path: Path) -> None:
    parity = run().compare(tmp_path)
    assert parity.passed and parity.first_divergence is None
    assert failed(parity) == []
    assert [one.name for one in parity.layers] == [call.name for call in CALLS]
    assert layer(parity, "fc").rule == "noise floor x 4"
    assert parity.outputs is not None and parity.outputs.passed
    assert parity.compared == 8


@pytest.mark.parametrize("seed", range(1, 6))
def test_an_honest_port_passes_with_other_numbers_too(tmp_path: Path, seed: int) -> None:
    assert failed(run(seed=seed).compare(tmp_path)) == []


def transposed(xs: Tensor, weight: Tensor) -> Tensor:
    return permuted_linear(xs, weight.T)


@pytest.mark.parametrize(
    ("port", "culprit", "at"),
    [
        (replace(HONEST, eps=1e-6), "block.norm", "block.norm"),
        (replace(HONEST, second_linear=transposed), "block.fc", "block.fc"),
        (replace(HONEST, scale=1.0), "Toy", "block"),
        (replace(HONEST, act=partial(F.gelu, approximate="tanh")), "Toy", "block"),
        (replace(HONEST, residual=False), "block", "block"),
        (replace(HONEST, count=8), "block", "block"),
    ],
    ids=["eps", "transposed", "scale", "gelu", "residual", "integer"],
)
def test_the_culprit_is_the_call_that_computed_the_first_wrong_value(
    tmp_path: Path, port: Port, culprit: str, at: str
) -> None:
    parity = run(port).compare(tmp_path)
    assert not parity.passed
    assert failed(parity) == [culprit]
    divergence = parity.first_divergence
    assert divergence is not None
    assert (divergence.layer, divergence.call, divergence.kind) == (culprit, at, "own")
    assert divergence.metrics is not None and divergence.metrics.passed is False


def test_a_wrong_input_is_the_callers_own_error(tmp_path: Path) -> None:
    parity = run(replace(HONEST, scale=1.0)).compare(tmp_path)
    divergence = parity.first_divergence
    assert divergence is not None
    assert divergence.what == "input 0 of block"
    assert divergence.source == "toy.py:10"
    own = layer(parity, "Toy").own
    assert own is not None and own.key == "block<0"


def test_of_two_faults_the_first_in_execution_is_the_culprit_not_the_first_listed(
    tmp_path: Path,
) -> None:
    # Toy ends last, so it is listed after block.norm, but its scale is applied before.
    parity = run(replace(HONEST, scale=1.0, eps=1e-3)).compare(tmp_path)
    assert failed(parity) == ["block.norm", "Toy"]
    assert parity.first_divergence is not None and parity.first_divergence.layer == "Toy"


def test_victims_show_a_chained_error_and_no_own_error(tmp_path: Path) -> None:
    parity = run(replace(HONEST, scale=1.0)).compare(tmp_path)
    victim = layer(parity, "block.fc")
    assert victim.passed and victim.own is not None and victim.chained is not None
    assert victim.chained.max_abs > 1e4 * victim.own.max_abs
    assert victim.chained.passed is None, "an inner layer's chained error is not judged"


def test_an_output_that_is_handed_on_has_no_own_error(tmp_path: Path) -> None:
    drop = layer(run().compare(tmp_path), "drop")
    assert drop.passed and drop.own is not None and drop.own.max_abs == 0
    assert drop.chained is not None and drop.chained.key == "drop"


def test_an_alias_that_the_port_wrote_is_judged(tmp_path: Path) -> None:
    traces = run()
    traces.lockstep["drop"] = traces.golden["block"] * 0.9
    parity = traces.compare(tmp_path)
    assert failed(parity) == ["drop"]


@pytest.mark.parametrize("name", ["block.norm", "drop"])
def test_a_value_missing_from_the_port_fails_its_call(tmp_path: Path, name: str) -> None:
    traces = run()
    del traces.lockstep[name]
    parity = traces.compare(tmp_path)
    assert failed(parity) == [name]
    divergence = parity.first_divergence
    assert divergence is not None and divergence.metrics is None
    assert f"no value for {name}" in divergence.reason


@pytest.mark.parametrize(
    ("begun", "lost", "culprit"),
    [
        (["Toy", "fc", "block"], ["block.fc", "block.norm", "block", "block:1", "drop", "Toy"], "block"),
        (
            ["Toy", "fc", "block", "block.fc"],
            ["block.fc", "block.norm", "block", "block:1", "drop", "Toy"],
            "block.fc",
        ),
        (["Toy", "fc", "block", "block.norm", "drop"], ["block.fc"], "block"),
    ],
    ids=["the port stopped before a call", "the port stopped in a call", "the port leaves a call out"],
)
def test_who_is_to_blame_for_a_call_that_was_not_made(
    tmp_path: Path, begun: list[str], lost: list[str], culprit: str
) -> None:
    traces = run()
    traces.begun = begun
    for key in lost:
        traces.lockstep.pop(key, None)
    parity = traces.compare(tmp_path)
    assert not parity.passed and parity.first_divergence is not None
    assert parity.first_divergence.layer == culprit, parity.first_divergence


def test_a_call_that_was_never_reached_is_the_callers_fault(tmp_path: Path) -> None:
    traces = run()
    for key in ("block<0", "block", "block:1", "block.fc", "block.norm"):
        del traces.lockstep[key]
    parity = traces.compare(tmp_path)
    assert parity.first_divergence is not None and parity.first_divergence.layer == "Toy"


def test_an_input_that_was_not_reported_by_a_call_that_ended_is_its_own_fault(
    tmp_path: Path,
) -> None:
    traces = run()
    del traces.lockstep["block<0"]
    assert failed(traces.compare(tmp_path)) == ["block"]


def test_the_models_inputs_need_not_be_written(tmp_path: Path) -> None:
    traces = run()
    del traces.lockstep["Toy<0"]
    assert traces.compare(tmp_path).passed


def test_wrong_inputs_to_the_model_fail_it(tmp_path: Path) -> None:
    traces = run()
    traces.lockstep["Toy<0"] = traces.golden["Toy<0"] + 1
    divergence = traces.compare(tmp_path).first_divergence
    assert divergence is not None and divergence.what == "input 0 of Toy"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: torch.full_like(x, math.nan),
        lambda x: x.clone().index_fill_(0, torch.tensor(0), math.nan),
        lambda x: x[:2],
        lambda x: x[:0],
        lambda x: x.reshape(-1),
        lambda x: x.to(torch.int64),
    ],
    ids=["all nan", "some nan", "shape", "empty", "flat", "dtype"],
)
@pytest.mark.parametrize("side", ["lockstep", "chained"])
def test_a_spoilt_output_never_passes(tmp_path: Path, spoil, side: str) -> None:
    traces = run()
    tensors = getattr(traces, side)
    tensors["Toy"] = spoil(tensors["Toy"])
    parity = traces.compare(tmp_path)
    assert not parity.passed
    assert parity.first_divergence is not None and parity.first_divergence.layer == "Toy"


def test_nan_everywhere_on_both_sides_never_passes(tmp_path: Path) -> None:
    traces = run()
    for tensors in (traces.golden, traces.lockstep, traces.chained):
        tensors["block.norm"] = torch.full((4, 64), math.nan)
    parity = traces.compare(tmp_path)
    assert failed(parity) == ["block.norm"]
    assert "NaN everywhere" in (layer(parity, "block.norm").reason or "")


def test_a_layer_that_is_empty_on_both_sides_never_passes(tmp_path: Path) -> None:
    traces = run()
    for tensors in (traces.golden, traces.truth, traces.lockstep, traces.chained):
        assert tensors is not None
        tensors["block.norm"] = torch.zeros(0, 64)
    parity = traces.compare(tmp_path)
    assert failed(parity) == ["block.norm"]
    assert "nothing is proven" in (layer(parity, "block.norm").reason or "")


def test_an_empty_output_beside_another_one_passes(tmp_path: Path) -> None:
    traces = run()
    for tensors in (traces.golden, traces.lockstep, traces.chained):
        tensors["block:1"] = torch.zeros(0, dtype=torch.int64)
    assert traces.compare(tmp_path).passed


def test_no_values_at_all_never_pass(tmp_path: Path) -> None:
    traces = run()
    traces.lockstep, traces.chained = {}, {}
    parity = traces.compare(tmp_path)
    assert not parity.passed and parity.compared == 0 and parity.outputs is None


def test_nothing_to_compare_never_passes(tmp_path: Path) -> None:
    traces = run()
    traces.calls, traces.events = [], []
    parity = traces.compare(tmp_path)
    assert not parity.passed and parity.first_divergence is None


def test_drift_without_a_culprit_fails_at_the_outputs(tmp_path: Path) -> None:
    traces = run()
    for key in ("block", "Toy"):
        traces.chained[key] = traces.chained[key] * 1.01
    parity = traces.compare(tmp_path)
    assert not parity.passed and failed(parity) == []
    divergence = parity.first_divergence
    assert divergence is not None
    assert (divergence.kind, divergence.layer) == ("chained", "block")


def test_inner_drift_that_the_outputs_do_not_show_passes(tmp_path: Path) -> None:
    traces = run()
    traces.chained["block.norm"] = traces.chained["block.norm"] * 1.01
    assert traces.compare(tmp_path).passed


def test_fixed_tolerances_hold_for_own_and_chained(tmp_path: Path) -> None:
    traces = run(replace(HONEST, eps=1e-6))
    parity = traces.compare(tmp_path, rule=Fixed(0.1, 0.1))
    assert parity.passed and parity.rule == "rtol 0.1, atol 0.1"
    assert parity.outputs is not None and parity.outputs.rule == "rtol 0.1, atol 0.1"
    traces.chained["Toy"] = traces.chained["Toy"] + 1
    assert not traces.compare(tmp_path, rule=Fixed(0.1, 0.1)).passed


def test_without_a_truth_the_rule_is_named(tmp_path: Path) -> None:
    traces = run()
    traces.truth = None
    parity = traces.compare(tmp_path)
    assert parity.passed
    assert "no float64 truth" in (layer(parity, "fc").rule or "")


def test_operations_are_the_own_errors_of_their_call(tmp_path: Path) -> None:
    traces = run()
    for name, error in (("add_10", 1.0), ("add_2", 2.0), ("add_1", 0.0)):
        traces.golden[f"block/{name}"] = torch.ones(3)
        traces.lockstep[f"block/{name}"] = torch.ones(3) + error
    traces.golden["block/unwatched"] = torch.ones(3)
    order = {"block": ["unwatched", "add_1", "add_2", "add_10"]}
    divergence = traces.compare(tmp_path, operations=order).first_divergence
    assert divergence is not None
    assert (divergence.layer, divergence.what) == ("block", "operation add_2")


def test_bool_outputs_may_come_as_uint8(tmp_path: Path) -> None:
    traces = run()
    traces.golden["block:1"] = torch.tensor([True, False])
    traces.lockstep["block:1"] = torch.tensor([1, 0], dtype=torch.uint8)
    traces.chained["block:1"] = torch.tensor([1, 0], dtype=torch.uint8)
    assert traces.compare(tmp_path).passed


def test_a_golden_trace_that_misses_a_layer_is_an_error(tmp_path: Path) -> None:
    traces = run()
    del traces.golden["block.norm"]
    with pytest.raises(TraceError) as caught:
        traces.compare(tmp_path)
    assert caught.value.code == "TP0311" and "block.norm" in caught.value.message


@pytest.mark.parametrize("missing", range(12))
def test_calls_and_events_that_disagree_are_an_error(tmp_path: Path, missing: int) -> None:
    traces = run()
    del traces.events[missing]
    with pytest.raises(ManifestError) as caught:
        traces.compare(tmp_path)
    assert caught.value.code == "TP0305"


def test_own_errors_may_be_measured_against_other_values_than_chained_ones() -> None:
    calls = [
        Call("Net/a", "", "a", [], ["Net/a"], None, "Net"),
        Call("Net", "", "Net", [], ["Net"], None, None),
    ]
    events = [("enter", "Net"), ("enter", "Net/a"), ("exit", "Net/a"), ("exit", "Net")]
    golden, candidate = torch.randn(64), torch.randn(64)
    traces = [
        HeldTrace(name, {"Net/a": values, "Net": output}, "Net")
        for name, values, output in (
            ("golden", golden, golden),
            ("candidate", candidate, golden),
            ("own", candidate.clone(), golden),
        )
    ]
    chained, given, own = traces
    parity = compare_traces(chained, given, given, calls=calls, events=events, own_golden=own)
    inner = layer(parity, "Net/a")
    assert parity.passed and inner.own is not None and inner.own.max_abs == 0.0
    farthest = float((candidate.double() - golden.double()).abs().max())
    assert inner.chained is not None and inner.chained.max_abs == farthest
    assert parity.compared == 2
    without = compare_traces(chained, given, given, calls=calls, events=events)
    assert failed(without) == ["Net/a"]
