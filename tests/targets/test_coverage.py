"""What becomes of every operation of ATen: the states are those of the tables, and every refusal has a reason."""

import json
from itertools import islice

import pytest
import torch

from benchmarks.operations.campaign import computed
from benchmarks.operations.capturing import capture
from benchmarks.operations.database import entries
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
        ("aten.__ilshift__.Scalar", "decomposed", "captured as aten.__lshift__.Scalar"),
        ("aten._assert_async.default", "decomposed", "dropped or rewritten when a model is captured"),
        ("aten.hamming_window.default", "decomposed", "torch makes it of other operations"),
        ("aten.view.dtype", "refused", "it reads the bits of numbers as those of another dtype"),
        (
            "aten.upsample_bilinear2d.default",
            "refused",
            "of this operation aten.upsample_bilinear2d.vec is mapped",
        ),
        (
            "aten.lu_solve.default",
            "refused",
            "torch makes it of aten.linalg_lu_solve.default: a factorisation",
        ),
        ("aten.coalesce.default", "refused", "for sparse tensors"),
        ("aten.special_airy_ai.default", "refused", "a special function"),
        ("aten._thnn_fused_lstm_cell.default", "refused", "a kernel that torch chooses"),
    ],
)
def test_states_of_some_operations(
    states: dict[str, Covered], name: str, state: str, why: str | None
) -> None:
    one = states[name]
    assert one.state == state
    assert one.why is None if why is None else (one.why or "").startswith(why)


def test_a_reason_says_more_than_that_nothing_maps_an_operation(found: Coverage) -> None:
    assert not [one.op for one in found.operations if "in the tables" in (one.why or "")]


@pytest.mark.zoo
def test_what_is_decomposed_ends_in_operations_that_are_mapped(states: dict[str, Covered]) -> None:
    """As far as the samples of torch's own database show it: one of each entry, captured as a model is."""
    samples = [sample for entry in entries() for sample in islice(entry.samples(torch.float32), 1)]
    known = list(computed(samples))
    ends = {}
    for one, graph in zip(known, capture([one.sample for one in known]), strict=True):
        missing = set() if isinstance(graph, str) else set(graph.operations) - OPS.keys()
        if missing:
            ends[one.sample.name] = sorted(missing)
    assert len(known) > 500
    wrong = {
        name: missing
        for name, missing in ends.items()
        if any(state.state == "decomposed" for state in _forms(states, name)) and name not in _PARTIAL
    }
    assert wrong == {}


_PARTIAL = frozenset({"as_strided.partial_views"})
"""Samples of an operation that is decomposed, but not for a tensor that has gaps in memory."""


def _forms(states: dict[str, Covered], sample: str) -> list[Covered]:
    """The functional overloads that an entry of the database may be of."""
    name = sample.removeprefix("nn.functional.").replace("linalg.", "linalg_").replace("special.", "special_")
    base = name.partition(".")[0]
    return [one for op, one in states.items() if op.split(".")[1] == base and not op.endswith("out")]


def test_an_operation_is_captured_as_its_form_that_gives_a_new_tensor() -> None:
    assert functional_form("aten.mul_.Scalar") == "aten.mul.Scalar"
    assert functional_form("aten.__ixor__.Tensor") == "aten.__xor__.Tensor"
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
