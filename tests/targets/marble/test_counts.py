"""Synapses are counted without being listed, and the count is that of the list."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.targets.marble.case_rows import CASES, convolutions
from tests.targets.marble.cases import Case, Work
from tests.targets.marble.graphs import Converted, converted
from tests.targets.marble.test_fans import computing, listed
from torchport.targets.marble.arrivals import Arrivals
from torchport.targets.marble.counts import Counts, synapses
from torchport.targets.marble.fans import fan
from torchport.targets.marble.synapses import bias_of, synapses_of


def enumerated(work: Work) -> int:
    every = enumerate(work.group.results)
    return sum(fan(work.ask, range(result.size), index).count for index, result in every)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_count_is_that_of_the_list(case: Case) -> None:
    for work in computing(case):
        assert synapses(work.ask) == enumerated(work)


def with_removed(work: Work) -> Work:
    """Every third synapse, or weight, is removed."""
    weight = work.arrays[work.group.weights["weight"]]
    present = (torch.arange(weight.numel()) % 3 > 0).reshape(weight.shape)
    arrays = {**work.arrays, "flags": present}
    return Work(replace(work.group, weights={**work.group.weights, "present": "flags"}), work.inputs, arrays)


def test_removed_synapses_are_not_counted() -> None:
    whole = [computing(each)[0] for each in convolutions()]
    dense = next(computing(each)[0] for each in CASES if str(each) == "linear.default")
    for work in [*whole, dense, listed()]:
        fewer = with_removed(work)
        assert synapses(fewer.ask) == enumerated(fewer) < synapses(work.ask)


@pytest.mark.slow
def test_a_large_convolution_is_counted_at_its_margins_too() -> None:
    made = converted(nn.Conv2d(64, 64, 3, padding=1), torch.randn(1, 64, 56, 56))
    assert Counts(made.graph, made.arrays).total() == 64 * 64 * (3 * 56 - 2) ** 2 + 64 * 56 * 56
    assert sum(array.numel() for array in made.arrays.values()) == 36_928


class Padded(nn.Module):
    """Sees padding through wiring: an even kernel is padded on one side first."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 2, padding="same")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.pad(self.conv(x).tril(), (1, 2), value=0.5).sum(-1)


def convolution(made: Converted) -> str:
    return next(group.name for group in made.graph.groups() if group.work == "convolution")


@pytest.mark.slow
def test_synapses_from_nobody_are_not_counted() -> None:
    made = converted(Padded(), torch.randn(1, 2, 4, 5))
    count = Counts(made.graph, made.arrays)
    for group in made.graph.groups():
        given = (made.graph, made.arrays)
        biases = sum(bias_of(*given, neuron) is not None for neuron in group.ids)
        assert count.of(group.name) == sum(len(synapses_of(*given, neuron)) for neuron in group.ids) + biases
    assert count.of(convolution(made)) == 3 * 2 * (2 * 4 - 1) * (2 * 5 - 1) + 3 * 20


@pytest.mark.slow
def test_removed_synapses_and_those_from_nobody_are_not_counted() -> None:
    made = converted(Padded(), torch.randn(1, 2, 4, 5))
    flags = torch.ones(3, 2, 2, 2, dtype=torch.bool)
    flags[0, 0, 0, 0] = flags[1, 0, 1, 1] = False
    arrays = {**made.arrays, "flags": flags}
    Arrivals(made.graph).groups[convolution(made)].weights["present"] = "flags"
    whole = 3 * 2 * (2 * 4 - 1) * (2 * 5 - 1) + 3 * 20
    assert Counts(made.graph, arrays).of(convolution(made)) == whole - 4 * 5 - 3 * 4
