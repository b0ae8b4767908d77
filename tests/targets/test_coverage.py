"""What becomes of every operation of ATen: the states are those of the tables, and every refusal has a reason."""

import json

import pytest
import torch

from torchport.capture.operations import is_operation
from torchport.cli import main
from torchport.targets.candle.registry import OPS
from torchport.targets.coverage import Coverage, Covered, coverage, functional_form
from torchport.targets.registry import find_target

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found() -> Coverage:
    return coverage(find_target("candle"))


@pytest.fixture(scope="module")
def states(found: Coverage) -> dict[str, Covered]:
    return {one.op: one for one in found.operations}


def test_every_overload_that_torch_has_is_listed_once(found: Coverage, states: dict[str, Covered]) -> None:
    assert len(states) == len(found.operations) > 3000
    assert all(is_operation(name) for name in states)
    assert {name for name in OPS if name.startswith("aten.")} <= states.keys()


def test_what_the_table_maps_is_mapped_and_nothing_else_is(states: dict[str, Covered]) -> None:
    target = find_target("candle")
    assert {name for name, one in states.items() if one.state == "mapped"} == set(
        filter(target.supports, states)
    )


def test_counts_are_those_of_the_list(found: Coverage) -> None:
    for state, number in found.counts.items():
        assert number == sum(one.state == state for one in found.operations)
        assert found.core[state] == sum(one.state == state and one.core for one in found.operations)
    core = [one for one in found.operations if one.core]
    assert all(torch.Tag.core in getattr_op(one.op).tags for one in core) and len(core) > 150


def getattr_op(name: str) -> torch._ops.OpOverload:
    _, packet, form = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), form)


def test_a_refusal_has_a_reason_and_a_decomposition_says_what_it_is(found: Coverage) -> None:
    assert all(one.why for one in found.operations if one.state != "mapped")


@pytest.mark.parametrize(
    ("name", "state", "why"),
    [
        ("aten.relu.default", "mapped", None),
        ("aten.relu_.default", "decomposed", "captured as aten.relu.default"),
        ("aten.add.out", "decomposed", "captured as aten.add.Tensor"),
        ("aten.stack.default", "mapped", None),
        ("aten.view.default", "decomposed", "dropped or rewritten when a model is captured"),
        ("aten.hsplit.int", "decomposed", "torch makes it of other operations when a model is captured"),
        ("aten.randn.default", "mapped", "with --allow-random"),
        ("aten.convolution_backward.default", "refused", "it belongs to a backward pass"),
        ("aten._foreach_add.List", "refused", "for training"),
    ],
)
def test_states_of_some_operations(
    states: dict[str, Covered], name: str, state: str, why: str | None
) -> None:
    one = states[name]
    assert one.state == state
    assert one.why is None if why is None else (one.why or "").startswith(why)


def test_an_operation_is_captured_as_its_form_that_gives_a_new_tensor() -> None:
    assert functional_form("aten.mul_.Scalar") == "aten.mul.Scalar"
    assert functional_form("aten.sum.IntList_out") == "aten.sum.dim_IntList"
    assert functional_form("aten.set_.source_Tensor_storage_offset") is None


def test_any_target_can_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "--target", "marble", "--state", "mapped", "--core", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    supports = find_target("marble").supports
    assert said["target"] == "marble" and said["core"]["mapped"] == len(said["operations"]) > 100
    assert all(one["core"] and one["state"] == "mapped" and supports(one["op"]) for one in said["operations"])


def test_the_text_has_the_counts_and_why_core_operations_are_refused(
    capsys: pytest.CaptureFixture[str], found: Coverage
) -> None:
    assert main(["ops"]) == 0
    text = capsys.readouterr().out
    assert str(found.counts["refused"]) in text
    refused = [one for one in found.operations if one.core and one.state == "refused"]
    assert all(one.op in text for one in refused)
    assert text.count("refused  ") >= len(refused)


def test_a_target_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "--target", "cobol"]) == 2
    assert "TP0402" in capsys.readouterr().err
