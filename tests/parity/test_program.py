"""What a program gives behind its model, and calls that only the port makes."""

from pathlib import Path

import pytest
import torch

from torchport.parity.calls import extra_calls
from torchport.parity.tolerance import NoiseFloor

from .toy import EVENTS, HONEST, Port, Traces, permuted_linear, run


def with_program(traces: Traces) -> Traces:
    """The same, of runs that say what the program gave in the end: what its model gave."""
    traces.lockstep["Toy>0"] = traces.golden["Toy"].clone()
    traces.chained["Toy>0"] = traces.chained["Toy"].clone()
    traces.returned = {"number": 1, "at": "src/main.rs:20"}
    return traces


def test_a_program_that_hands_on_what_its_model_gives_passes(tmp_path: Path) -> None:
    parity = with_program(run(HONEST)).compare(tmp_path)
    assert parity.passed and parity.program is not None and parity.program.passed
    assert parity.program.source == "src/main.rs:20"
    assert parity.outputs is not None and parity.outputs.key == "Toy>0"


def test_a_scale_behind_the_model_is_the_programs_fault_and_no_layers(tmp_path: Path) -> None:
    traces = with_program(run(HONEST))
    for values in (traces.lockstep, traces.chained):
        values["Toy>0"] = values["Toy>0"] * 1.001
    parity = traces.compare(tmp_path)
    found = parity.first_divergence
    assert not parity.passed and all(layer.passed for layer in parity.layers)
    assert found is not None and (found.kind, found.layer, found.source) == (
        "returned",
        "Toy",
        "src/main.rs:20",
    )
    assert found.what == "output of the program" and found.metrics is not None
    assert parity.program is not None and not parity.program.passed


def test_the_smallest_scale_behind_the_model_that_a_layer_would_be_blamed_for_is_found(
    tmp_path: Path,
) -> None:
    """The noise floor judges it, and not the drift: 1e-5 is far below what adds up in a model."""
    traces = with_program(run(HONEST))
    traces.lockstep["Toy>0"] = traces.lockstep["Toy>0"] * (1 + 1e-5)
    assert not traces.compare(tmp_path).passed


def test_what_is_wrong_in_the_chained_run_alone_is_found(tmp_path: Path) -> None:
    traces = with_program(run(HONEST))
    traces.chained["Toy>0"] = traces.chained["Toy>0"] * 1.01
    found = traces.compare(tmp_path).first_divergence
    assert found is not None and found.kind == "returned"


def test_a_layer_that_is_wrong_comes_first_and_the_program_is_said_to_be_wrong_too(tmp_path: Path) -> None:
    traces = with_program(run(Port(permuted_linear, permuted_linear, eps=1e-2)))
    traces.lockstep["Toy>0"] = traces.lockstep["Toy>0"] * 1.001
    parity = traces.compare(tmp_path)
    assert parity.first_divergence is not None and parity.first_divergence.layer == "block.norm"
    assert parity.program is not None and not parity.program.passed


@pytest.mark.parametrize(
    "wrong",
    [
        lambda value: value.reshape(-1),
        lambda value: value.long(),
        lambda value: torch.full_like(value, torch.nan),
        lambda value: torch.where(value == value.max(), torch.inf, value),
    ],
    ids=["shape", "dtype", "NaN", "Inf"],
)
def test_another_shape_dtype_nan_or_inf_behind_the_model_fails(tmp_path: Path, wrong) -> None:  # type: ignore[no-untyped-def]
    traces = with_program(run(HONEST))
    traces.lockstep["Toy>0"] = wrong(traces.lockstep["Toy>0"])
    found = traces.compare(tmp_path).first_divergence
    assert found is not None and found.kind == "returned"


@pytest.mark.parametrize("number", [0, 2])
def test_another_number_of_outputs_fails(tmp_path: Path, number: int) -> None:
    traces = with_program(run(HONEST))
    traces.returned = {"number": number}
    found = traces.compare(tmp_path).first_divergence
    assert found is not None and found.kind == "returned" and found.metrics is None
    assert f"gives {number} tensors in the end, and the model 1" in found.reason


def test_runs_of_earlier_versions_say_nothing_of_the_program(tmp_path: Path) -> None:
    parity = run(HONEST).compare(tmp_path)
    assert parity.passed and parity.program is None


def test_fixed_tolerances_hold_for_the_program_too(tmp_path: Path) -> None:
    from torchport.parity.tolerance import Fixed

    traces = with_program(run(HONEST))
    for values in (traces.lockstep, traces.chained):
        values["Toy>0"] = values["Toy>0"] + 1e-3
    assert traces.compare(tmp_path, Fixed(rtol=0.0, atol=1e-2)).passed
    assert not traces.compare(tmp_path, NoiseFloor()).passed


# Calls


def with_events(*more: tuple[int, str, str]) -> Traces:
    """An honest run that says which calls it made; `more` are events that are put in at places among the model's."""
    traces = run(HONEST)
    events = list(EVENTS)
    for place, kind, name in sorted(more, reverse=True):
        events.insert(place, (kind, name))
    traces.made = events
    return traces


def test_the_same_calls_pass(tmp_path: Path) -> None:
    assert with_events().compare(tmp_path).passed


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("fc#1", "the port calls fc more often than the model does, which calls it once"),
        ("other", "the port calls other, and the model does not"),
    ],
)
def test_a_call_that_only_the_port_makes_is_a_fault_of_its_caller(
    tmp_path: Path, name: str, reason: str
) -> None:
    after = EVENTS.index(("exit", "fc")) + 1
    parity = with_events((after, "enter", name), (after + 1, "exit", name)).compare(tmp_path)
    found = parity.first_divergence
    assert found is not None and not parity.passed
    assert (found.layer, found.kind, found.what, found.reason) == ("Toy", "own", f"call {name}", reason)
    assert found.key is None
    assert [layer.name for layer in parity.layers if not layer.passed] == ["Toy"]


def test_a_call_that_is_too_many_is_named_before_what_it_made_wrong(tmp_path: Path) -> None:
    after = EVENTS.index(("exit", "fc")) + 1
    traces = with_events((after, "enter", "fc#1"), (after + 1, "exit", "fc#1"))
    traces.lockstep["block<0"] = traces.lockstep["block<0"] * 2
    found = traces.compare(tmp_path).first_divergence
    assert found is not None and found.what == "call fc#1"


def test_calls_inside_a_call_that_is_too_many_are_part_of_it() -> None:
    events = [("enter", "a"), ("enter", "b"), ("enter", "c"), ("exit", "c"), ("exit", "b"), ("exit", "a")]
    found = extra_calls(events, {"a": None}, "a", lambda name: False)  # type: ignore[dict-item]
    assert [(one.name, one.owner, one.after) for one in found] == [("b", "a", ("enter", "a"))]


def test_a_call_that_the_chained_run_alone_makes_is_found(tmp_path: Path) -> None:
    after = EVENTS.index(("exit", "fc")) + 1
    traces = with_events((after, "enter", "fc#1"), (after + 1, "exit", "fc#1"))
    traces.made_in_lockstep = list(EVENTS)
    assert not traces.compare(tmp_path).passed
