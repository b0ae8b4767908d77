"""Loops that torch.export wrote out are found where all of their steps are equal, and nowhere else."""

import pytest
import torch
from torch import nn

from torchport.capture import graph as g
from torchport.capture.recorder import record
from torchport.capture.unrolled import find_unrolled, steps_written_out

pytestmark = pytest.mark.slow

X = torch.rand(2, 5, 4)


def graph_of(model: nn.Module) -> g.Graph:
    return record(model, (X,)).graph


def counts(graph: g.Graph) -> list[int]:
    return [loop.count for loop in find_unrolled(graph.root, g.value_metas(graph.root, graph.weights))]


class Loop(nn.Module):
    """`kind` says what a step does that makes it more than a step."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.dense = nn.ModuleList([nn.Linear(4, 4) for _ in range(5)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = x.new_zeros(x.shape[0], 4)
        middle = state
        if "computed" in self.kind:
            x = self.dense[1](x).transpose(0, 1).tanh().permute(1, 0, 2)
        for t in range(x.shape[1]):
            now = x[:, 4 - t] if "backwards" in self.kind else x[:, t]
            layer = self.dense[t if self.kind == "another layer" else 0]
            factor = t if self.kind == "another number" else 2
            state = layer(now * factor + state).tanh()
            middle = state if t == 2 else middle
        return state + middle if self.kind == "read behind it" else state


def test_equal_steps_are_a_loop_over_the_whole_length() -> None:
    graph = graph_of(Loop("equal"))
    assert counts(graph) == [5]
    ((path, source, count),) = steps_written_out(graph)
    assert path == "" and source is not None and source.startswith(__file__) and count == 5


@pytest.mark.parametrize(
    "kind", ["backwards", "backwards, computed", "another layer", "another number", "read behind it"]
)
def test_steps_that_differ_are_no_loop(kind: str) -> None:
    graph = graph_of(Loop(kind))
    assert counts(graph) == []
    assert [count for _, _, count in steps_written_out(graph)] == [5]


def test_layers_one_after_the_other_are_no_loop_over_time() -> None:
    layers = [nn.Tanh() for _ in range(5)]
    assert counts(graph_of(nn.Sequential(*layers))) == []
    assert not list(steps_written_out(graph_of(nn.Sequential(*layers))))


class Weighted(nn.Module):
    """A step for each slice, in which the number of the step counts."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = {
            "unbind": lambda: list(x.unbind(1)),
            "slices": lambda: [x[:, t : t + 1] for t in range(5)],
            "wide slices": lambda: [x[:, t : t + 3] for t in range(3)],
            "some": lambda: [x[:, t] for t in range(4)],
            "features": lambda: [x[..., t : t + 1] for t in range(4)],
        }[self.kind]()
        state = torch.zeros_like(steps[0])
        for t, now in enumerate(steps):
            state = state * 0.5 + now * (t + 1)
        return state


@pytest.mark.parametrize(
    ("kind", "count"),
    [("unbind", [5]), ("slices", [5]), ("wide slices", [3]), ("some", []), ("features", [])],
)
def test_what_is_taken_apart_to_its_end_is_fixed_to_its_length(kind: str, count: list[int]) -> None:
    graph = graph_of(Weighted(kind))
    assert counts(graph) == []
    assert [found for _, _, found in steps_written_out(graph)] == count


class TakenApart(nn.Module):
    """Three parts of one tensor that are not used alike, as the queries, keys and values of attention."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        queries, keys, values = x[:, 1:4].reshape(2, 3, 4).unbind(1)
        return queries * keys + values


def test_parts_that_are_used_in_different_ways_are_no_loop() -> None:
    graph = graph_of(TakenApart())
    assert counts(graph) == [] and not list(steps_written_out(graph))
