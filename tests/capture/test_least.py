"""Lengths of 1: a model that does something else there is not what was captured, and the capture says so."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from torchport.capture.recorder import record, record_graph
from torchport.errors import CaptureError, SpecError

X = torch.linspace(-2, 2, 3 * 4 * 5).view(3, 4, 5)


class Plain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(-1).cumsum(1)


class Branching(nn.Module):
    """Does something else with a single step, which torch.export does not notice."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[1] > 1 else x + 1


class Squeezing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum(-1).squeeze(-1)


class SqueezingAll(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, None].squeeze()


class Refusing(nn.Module):
    """A window of two steps, which a single step has none of."""

    def forward(self, x: Tensor) -> Tensor:
        return x.unfold(1, 2, 1).sum(-1)


@pytest.mark.parametrize(
    ("kind", "least"),
    [(Plain, (1, 1)), (Branching, (1, 2)), (Squeezing, (1, 2)), (SqueezingAll, (2, 2)), (Refusing, (1, 1))],
)
def test_the_least_length_is_that_from_which_on_the_graph_stands_for_the_model(
    kind: type[nn.Module], least: tuple[int, int]
) -> None:
    capture = record(kind(), X, dynamic="x:0,x:1")
    assert tuple(symbol.low for symbol in capture.graph.symbols) == least


@pytest.mark.parametrize("kind", [Branching, Squeezing])
def test_inputs_that_are_shorter_are_refused_with_what_was_expected(kind: type[nn.Module]) -> None:
    capture = record(kind(), X, dynamic="x:0,x:1")
    with pytest.raises(
        CaptureError, match=r"TP0208.*\[batch, 2<=x_dim1, 5\], and is given float32 \[3, 1, 5\]"
    ):
        record_graph(kind(), capture.graph, {}, (X[:, :1],), {})
    assert record_graph(kind(), capture.graph, {}, (X[:1, :2],), {}).has_values


def test_a_squeeze_on_meta_is_seen_without_values() -> None:
    capture = record(Squeezing().to("meta"), X.to("meta"), dynamic="x:0,x:1")
    assert [symbol.low for symbol in capture.graph.symbols] == [1, 2]


def test_names_of_sizes_have_single_underscores() -> None:
    class Odd(nn.Module):
        def forward(self, self_: Tensor) -> Tensor:
            return self_ * 2

    capture = record(Odd(), X, dynamic="self_:0,self_:1")
    assert [symbol.name for symbol in capture.graph.symbols] == ["batch", "self_dim1"]


def test_an_axis_that_is_taken_out_at_the_length_of_the_example_is_fixed() -> None:
    capture = record(SqueezingAll(), X[:1])
    assert capture.graph.symbols == () and capture.golden["SqueezingAll"].shape == (4, 5)
    with pytest.raises(SpecError, match=r"TP0106.*axis 0 of x has length 1, and squeeze takes it out"):
        record(SqueezingAll(), X[:1], dynamic="x:0")
