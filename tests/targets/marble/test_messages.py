"""Groups by messages: what neurons make of their messages is what the group computes at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import Tensor

from tests.targets.marble.case_rows import CASES
from tests.targets.marble.cases import Case, Work, case, flags, ints, randn, weight
from tests.targets.marble.test_fans import computing, listed
from torchport.capture.control_flow import CONTROL_FLOW
from torchport.errors import ConvertError
from torchport.targets.marble import counts, messages
from torchport.targets.marble.fans.neurons import PATTERNS
from torchport.targets.marble.groups import Form, Group, Kind, Port

REFUSED = (RuntimeError, NotImplementedError, TypeError, ValueError)
"""How torch says that an operation does not take a dtype."""
TOLERANCE = {torch.float64: 1e-12} | {
    dtype: steps * torch.finfo(dtype).eps
    for dtype, steps in ((torch.float32, 16), (torch.float16, 4), (torch.bfloat16, 4))
}
"""Of floats, which may be added in another order; nothing else may differ."""


class Observed:
    """Keeps what an observer is shown."""

    def __init__(self) -> None:
        self.messages: list[tuple[range, Tensor]] = []

    def __call__(self, group: str, neurons: range, sent: Tensor) -> None:
        self.messages.append((neurons, sent))

    @property
    def neurons(self) -> list[int]:
        return sorted(neuron for neurons, _ in self.messages for neuron in neurons)


def assert_agree(work: Work, inputs: Sequence[Tensor] | None = None) -> Observed:
    """By messages, observed and not, the results of a group are those of its work."""
    given = work.inputs if inputs is None else inputs
    expected = work.compute(given)
    observed = Observed()
    for observe in (None, observed):
        found = messages.compute(work.group, given, work.arrays, {}, observe)
        assert len(found) == len(expected)
        for own, other in zip(found, expected, strict=True):
            assert own.dtype == other.dtype
            tolerance = TOLERANCE.get(own.dtype, 0)
            torch.testing.assert_close(own, other, equal_nan=True, rtol=tolerance, atol=tolerance)
    return observed


@pytest.mark.parametrize("case", CASES, ids=str)
def test_by_messages_agrees_with_the_work(case: Case) -> None:
    for work in computing(case):
        observed = assert_agree(work)
        if work.group.kind is not Kind.SELECTION:
            assert observed.neurons == list(work.group.ids)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nan_comes_through_as_it_does_at_once(case: Case) -> None:
    for work in computing(case):
        inputs = [value.clone() for value in work.inputs]
        for value in inputs:
            if value.is_floating_point() and value.numel() > 3:
                value.view(-1)[1] = math.nan
                if "upsample" not in work.group.work:
                    # At a margin torch adds 0 times infinity, and one synapse has the weight of both.
                    value.view(-1)[-1] = math.inf
        assert_agree(work, inputs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "least"),
    [(torch.float16, 190), (torch.bfloat16, 190), (torch.float32, 200), (torch.int64, 100), (torch.bool, 60)],
    ids=str,
)
def test_every_dtype_that_torch_takes_is_taken(dtype: torch.dtype, least: int) -> None:
    """At least as many of the cases as are known to be possible with the dtype."""
    done = 0
    for each in CASES:
        try:
            found = computing(each.cast(dtype))
        except REFUSED:
            continue
        done += 1
        for work in found:
            assert_agree(work)
    assert done >= least


def empty() -> Iterator[Case]:
    none = randn(0, 4)
    yield case("linear.default", none, weight(6, 4), weight(6))
    yield case("linear.default", randn(3, 0), weight(6, 0), label="of nothing")
    yield case("add.Tensor", none, randn(4))
    yield case("mul.Tensor", none, randn(0, 1))
    yield case("maximum.default", none, randn(4))
    yield case("relu.default", none)
    yield case("sum.dim_IntList", none, [0])
    yield case("mean.dim", none, [0])
    yield case("sum.default", none)
    yield case("amax.default", none, [1])
    yield case("prod.default", none)
    yield case("cumsum.default", none, 1)
    yield case("conv2d.default", randn(0, 4, 5, 5), weight(2, 4, 3, 3), weight(2))
    yield case("max_pool2d.default", randn(0, 4, 5, 5), [2])
    yield case("avg_pool2d.default", randn(0, 4, 5, 5), [2])
    yield case("where.self", flags(0, 4), none, randn(4))
    yield case("eq.Tensor", none, randn(4))
    yield case("gather.default", randn(3, 4), 1, ints(4, 3, 0))
    yield case("embedding.default", randn(9, 4), ints(9, 0))
    yield case("index.Tensor", randn(3, 4), [ints(3, 0)])
    yield case("sort.default", none, 1)


@pytest.mark.parametrize("case", list(empty()), ids=str)
def test_nothing_gives_nothing(case: Case) -> None:
    for work in computing(case):
        assert_agree(work)


@pytest.mark.parametrize("other", [randn(1)[0], torch.tensor(2), torch.tensor(1.5)], ids=str)
def test_a_value_of_rank_0_has_no_say_in_the_dtype(other: Tensor) -> None:
    for operation in ("add.Tensor", "mul.Tensor", "eq.Tensor", "maximum.default", "pow.Tensor_Tensor"):
        for value in (randn(3).float(), ints(5, 3), ints(5, 3)[0]):
            for work in computing(case(operation, value, other)):
                assert_agree(work)
    for work in computing(case("where.self", flags(3), randn(3).float(), other)):
        assert_agree(work)


def test_synapses_in_a_list() -> None:
    observed = assert_agree(listed())
    (_, sent) = observed.messages[0]
    assert sent.tolist() == [0.5, -9, 4, 6, 28]


def test_synapses_in_a_list_of_every_dtype() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.int64):
        work = listed()
        arrays = {**work.arrays, "weights": torch.tensor([1, 0, 1, 1, 2]).to(dtype)}
        arrays["biases"] = arrays["biases"].to(dtype)
        assert_agree(Work(work.group, [value.to(dtype) for value in work.inputs], arrays))


def test_a_list_without_neurons() -> None:
    work = listed()
    arrays = {"rows": torch.zeros(1, dtype=torch.int32), "sources": torch.empty(0, dtype=torch.int32)}
    arrays |= {"weights": torch.empty(0, dtype=torch.float64), "biases": torch.empty(0, dtype=torch.float64)}
    assert_agree(Work(work.group, work.inputs, arrays))


SUMS = ["linear.default", "conv2d.default", "conv_transpose2d.input", "add.Tensor", "cumsum.default"]


@pytest.mark.parametrize("case", [each for each in CASES if str(each) in SUMS], ids=str)
def test_an_observer_sees_every_message_of_a_weighted_sum(case: Case) -> None:
    """What it is shown adds up to the result, less the bias, and has as many numbers as there are synapses."""
    work = computing(case)[0]
    bare = Group(
        **{**vars(work.group), "weights": {k: v for k, v in work.group.weights.items() if k != "bias"}}
    )
    observed = assert_agree(Work(bare, work.inputs, work.arrays))
    total = torch.zeros(bare.neurons, dtype=torch.float64)
    for neurons, sent in observed.messages:
        total[neurons.start - bare.first : neurons.stop - bare.first] = sent.sum(-1)
    (expected,) = Work(bare, work.inputs, work.arrays).compute()
    torch.testing.assert_close(total, expected.flatten())
    shown = sum(int((sent != 0).sum()) for _, sent in observed.messages)
    assert shown == counts.synapses(Work(bare, work.inputs, work.arrays).ask)


def test_a_removed_synapse_of_one_channel_is_there_in_the_others() -> None:
    work = computing(next(each for each in CASES if str(each) == "conv2d.default groups"))[0]
    present = torch.ones(6, 2, 3, 3, dtype=torch.bool)
    present[0, 1] = present[4, 0, 2] = False
    arrays = {"w": work.arrays[work.group.weights["weight"]] * present, "flags": present}
    group = Group(**{**vars(work.group), "weights": {"weight": "w", "present": "flags"}})
    assert_agree(Work(group, work.inputs, arrays))


def test_every_work_whose_synapses_are_known_is_done_by_messages() -> None:
    flow = {kind.name for kind in CONTROL_FLOW.values()}
    assert set(PATTERNS) - set(messages.RECEIVED) == flow, "bodies are run by the evaluator"


def test_a_work_that_is_not_known_is_refused() -> None:
    group = Group("g", Kind.REDUCTION, "aten.mode.default", (Port("x"),), (Form((), "float32"),), 0)
    with pytest.raises(ConvertError, match="aten.mode.default") as caught:
        messages.compute(group, [torch.ones(3)], {}, {})
    assert caught.value.code == "TP0420"
