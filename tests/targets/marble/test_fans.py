"""The synapses of neurons: those that are listed are the ones through which values come."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.targets.marble.case_rows import CASES, WITHOUT_CASE, convolutions, names_of, sums
from tests.targets.marble.cases import Case, Work
from torchport.errors import ConvertError
from torchport.targets.marble import works
from torchport.targets.marble.fans import Fan, fan, form_of, reaches, request
from torchport.targets.marble.fans.lists import is_listed, listing
from torchport.targets.marble.groups import Form, Group, Kind, Port

COMPUTING = [kind for kind in Kind if kind not in (Kind.WIRING, Kind.CONSTANT, Kind.INPUT)]
NOT_EXACT = {"any", "all", "aten.fmax.default", "aten.fmin.default"} | {
    "aten._pdist_forward.default",
    "aten._trilinear.default",
}
"""Works through which NaN does not come, and those that have synapses from all that arrives."""


def computing(case: Case) -> list[Work]:
    return [work for work in case.works() if work.group.kind in COMPUTING]


def test_every_operation_that_is_one_group_has_a_case() -> None:
    assert names_of(*COMPUTING) - WITHOUT_CASE == {case.operation for case in CASES} & names_of(*COMPUTING)


@pytest.mark.parametrize("case", [*convolutions(), *sums()], ids=str)
def test_a_weighted_sum_is_the_sum_along_its_synapses(case: Case) -> None:
    work = computing(case)[0]
    assert work.group.kind is Kind.WEIGHTED_SUM
    (result,) = work.compute()
    synapses = fan(work.ask, range(result.numel()))
    assert synapses.weight is not None
    torch.testing.assert_close(summed(work, synapses).reshape(result.shape).to(result.dtype), result)


def summed(work: Work, synapses: Fan) -> Tensor:
    values = works.end_to_end([value.double() for value in work.inputs])
    messages = values[synapses.source] * (1 if synapses.weight is None else synapses.weight)
    if synapses.present is not None:
        messages = messages.where(synapses.present, 0)
    return messages.sum(1) + (0 if synapses.bias is None else synapses.bias)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_neurons_have_synapses_from_all_that_they_depend_on(case: Case) -> None:
    for work in computing(case):
        reached = connected(work).split([value.numel() for value in work.inputs], 1)
        for nth, value in enumerate(work.inputs):
            if value.is_floating_point():
                assert_reached(work, nth, reached[nth])


def assert_reached(work: Work, nth: int, reached: Tensor) -> None:
    """What changes if one value of an input is NaN must have a synapse from there."""
    before = work.compute()[0]
    is_exact = work.group.kind in (Kind.WEIGHTED_SUM, Kind.PRODUCT, Kind.REDUCTION)
    size = work.inputs[nth].numel()
    for place in range(0, size, max(1, size // 7)):
        changed = [value.clone() for value in work.inputs]
        changed[nth].view(-1)[place] = math.nan
        after = work.compute(changed)[0]
        differs = ((after != before) & ~(after.isnan() & before.isnan())).flatten()
        if is_exact and work.group.work not in NOT_EXACT:
            assert torch.equal(differs, reached[:, place]), place
        else:
            assert not (differs & ~reached[:, place]).any(), place


def connected(work: Work) -> Tensor:
    """For each neuron of the first result and each place, whether there is a synapse."""
    count = work.group.results[0].size
    synapses = fan(work.ask, range(count))
    there = (
        torch.ones_like(synapses.source, dtype=torch.bool) if synapses.present is None else synapses.present
    )
    table = torch.zeros(count, sum(value.numel() for value in work.inputs), dtype=torch.int64)
    return table.scatter_add_(1, synapses.source, there.long()) > 0


@pytest.mark.parametrize("case", CASES, ids=str)
def test_synapses_are_found_from_both_ends(case: Case) -> None:
    for work in computing(case):
        for index, result in enumerate(work.group.results):
            synapses = fan(work.ask, range(result.size), index)
            there = synapses.source.new_ones(()).bool() if synapses.present is None else synapses.present
            for reach in [] if is_listed(work.ask) else reaches(work.ask, result):
                place = math.prod(reach.shape) // 2
                found = ((synapses.source == reach.start + place) & there).any(1).nonzero()[:, 0]
                assert torch.equal(reach.targets(place, result.shape), found)


def test_synapses_in_a_list_are_found_from_both_ends() -> None:
    for work in [listed(), *(computing(each)[0] for each in CASES if "col2im" in each.operation)]:
        synapses = fan(work.ask, range(work.group.neurons))
        for place in range(sum(value.numel() for value in work.inputs)):
            found = ((synapses.source == place) & synapses.present).any(1).nonzero()[:, 0]
            assert sorted(set(listing(work.ask).targets(torch.tensor([place])).tolist())) == found.tolist()


def test_the_synapses_of_one_neuron_are_those_that_all_have() -> None:
    for case in CASES:
        work = computing(case)[0]
        result = work.group.results[0]
        every, one = fan(work.ask, range(result.size)), fan(work.ask, torch.tensor([result.size - 1]))
        width = one.source.shape[1]
        assert torch.equal(every.source[-1:, :width], one.source)
        assert every.weight is None or torch.equal(every.weight[-1:, :width], one.weight)  # type: ignore[arg-type]
        assert every.present is None or not every.present[-1, width:].any()


def listed(**changed: object) -> Work:
    """A group built by hand: three neurons, of which the second has no synapse."""
    arrays = {
        "rows": torch.tensor([0, 2, 2, 5], dtype=torch.int32),
        "sources": torch.tensor([0, 4, 1, 1, 3], dtype=torch.int32),
        "weights": torch.tensor([0.5, -1, 2, 3, 4], dtype=torch.float64),
        "biases": torch.tensor([1.0, 2, 3], dtype=torch.float64),
    }
    weights = {"row": "rows", "source": "sources", "weight": "weights", "bias": "biases"}
    inputs = [torch.arange(3.0, dtype=torch.float64) + 1, torch.tensor([[7.0, 9.0]], dtype=torch.float64)]
    ports = (Port("x"), Port("y"))
    group = Group(
        "g", Kind.WEIGHTED_SUM, "sparse", ports, (Form((3,), "float64"),), 0, weights=weights, **changed
    )  # type: ignore[arg-type]
    return Work(group, inputs, arrays)


def test_synapses_in_a_list_are_summed_row_by_row() -> None:
    work = listed()
    (result,) = work.compute()
    assert result.tolist() == [1 + 0.5 * 1 - 9, 2, 3 + 2 * 2 + 3 * 2 + 4 * 7]
    assert torch.equal(summed(work, fan(work.ask, range(3))), result)
    assert fan(work.ask, range(3)).count == 5 + 3


def test_synapses_in_a_list_may_give_any_shape() -> None:
    shaped = listed(options={"shape": [3, 1]})
    assert shaped.compute()[0].shape == (3, 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.bool])
def test_synapses_in_a_list_take_every_dtype(dtype: torch.dtype) -> None:
    work = listed()
    arrays = {**work.arrays, "weights": torch.tensor([1, 0, 1, 1, 1]).to(dtype)}
    group = Group(
        **{**vars(work.group), "weights": {k: v for k, v in work.group.weights.items() if k != "bias"}}
    )
    inputs = [value.to(dtype) for value in work.inputs]
    (result,) = works.compute(group, inputs, arrays, {})
    expected = [1, 0, 3] if dtype is torch.bool else [1, 0, 2 + 2 + 7]
    assert result.tolist() == expected


def test_a_removed_synapse_is_not_there() -> None:
    weight = torch.tensor([[1.0, 0, 2], [0, 3, 4]])
    arrays = {"w": weight, "p": torch.tensor([[True, False, True], [True, True, True]])}
    group = Group(
        "g", Kind.WEIGHTED_SUM, "dense", (Port("x"),), (Form((2,), "float32"),), 0,
        weights={"weight": "w", "present": "p"},
    )  # fmt: skip
    synapses = fan(request(group, [Form((3,), "float32")], group.results, arrays, {}), range(2))
    assert synapses.count == 5
    assert synapses.present is not None
    assert synapses.present.tolist() == [[True, False, True], [True, True, True]]


def test_an_operation_whose_synapses_are_not_known_is_refused() -> None:
    group = Group("g", Kind.REDUCTION, "aten.mode.default", (Port("x"),), (Form((), "float32"),), 0)
    with pytest.raises(ConvertError, match="aten.mode.default") as caught:
        fan(request(group, [form_of(torch.ones(3))], group.results, {}, {}), range(1))
    assert caught.value.code == "TP0420"
