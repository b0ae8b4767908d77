"""Free axes: chosen by us, by flag or by API, and what is said of those that cannot be had."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from torchport import GoldenRecorder, TorchportError
from torchport.capture.recorder import Capture, record, record_graph
from torchport.capture.symbols import parse_dynamic

from . import models

axes_of = st.dictionaries(
    st.text(st.characters(exclude_characters=",", exclude_categories=["Cs", "Z", "Cc"]), min_size=1),
    st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple),
)


def free(capture: Capture) -> set[tuple[str, int]]:
    return {(symbol.input, symbol.axis) for symbol in capture.graph.symbols}


class Plain(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.softmax(-1)


class Pair(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y], 1)


@given(axes_of)
def test_the_flag_says_what_the_api_says(wish: dict[str, tuple[int, ...]]) -> None:
    flag = ",".join(f"{name}:{axis}" for name, axes in wish.items() for axis in axes)
    assert parse_dynamic(flag) == parse_dynamic(wish) == wish


@pytest.mark.parametrize("text", ["x", "x:", ":0", "x:-1", "x:a", "x:²", "x:1.5"])
def test_what_is_not_name_and_axis_is_refused(text: str) -> None:
    with pytest.raises(TorchportError, match="TP0106"):
        parse_dynamic(text)


@pytest.mark.parametrize("wish", [{"x": -1}, {"x": (0, True)}, {"x": None}, {"x": "0"}, {1: (0,)}])
def test_the_api_refuses_what_is_not_an_axis(wish: dict) -> None:
    with pytest.raises(TorchportError, match="TP0106"):
        parse_dynamic(wish)


def test_the_batch_is_free_without_being_asked() -> None:
    assert free(record(nn.Linear(4, 3), torch.randn(2, 4))) == {("input", 0)}


def test_the_length_of_token_ids_is_free_without_being_asked() -> None:
    assert free(record(models.Tied(), torch.randint(0, 11, (2, 5)))) == {("ids", 0), ("ids", 1)}


@pytest.mark.parametrize("batch", [0, 1])
def test_an_example_batch_of_one_or_none_still_gives_a_free_batch(batch: int) -> None:
    model = models.Stack().eval()
    capture = record(model, torch.randn(batch, 8))
    assert free(capture) == {("x", 0)}
    assert capture.golden["Stack<0"].shape == (batch, 8), "the recording keeps the user's own inputs"
    other = torch.randn(5, 8)
    again = record_graph(model, capture.graph, capture.weights, (other,), {})
    with torch.no_grad():
        torch.testing.assert_close(again.golden[again.plan.resolve("Stack")], model(other))


@pytest.mark.parametrize("wish", ["x:1", {"x": (1,)}, {"x": 1}])
def test_axes_that_are_asked_for_are_free_and_only_these(wish: str | dict) -> None:
    assert free(record(Plain(), torch.randn(2, 4), dynamic=wish)) == {("x", 1)}


def test_nothing_is_free_where_nothing_is_asked_for() -> None:
    assert free(record(Plain(), torch.randn(2, 4), dynamic="")) == set()


def test_a_recorder_takes_free_axes_too() -> None:
    capture = GoldenRecorder(dynamic="x:1").record(Plain(), torch.randn(2, 4))
    assert free(capture) == {("x", 1)}


def test_a_free_axis_of_a_nested_input_goes_by_its_path() -> None:
    batch = {"x": torch.randn(2, 4), "deep": {"y": torch.randn(2, 4)}}
    extra = (torch.randn(3), torch.randn(3))
    capture = record(models.Nested(), (batch, extra), dynamic="batch.x:0,batch.deep.y:0")
    assert free(capture) == {("batch.x", 0)}, "both axes are one length"


def test_an_unknown_input_is_refused_with_those_there_are() -> None:
    with pytest.raises(TorchportError, match="TP0106.*'y'") as caught:
        record(Plain(), torch.randn(2, 4), dynamic="y:0")
    assert "x" in (caught.value.fix or "")


def test_an_axis_out_of_range_is_refused_with_the_shape() -> None:
    with pytest.raises(TorchportError, match="TP0106.*axis 2.*2 axes") as caught:
        record(Plain(), torch.randn(2, 4), dynamic="x:2")
    assert "(2, 4)" in (caught.value.fix or "")


def test_an_axis_that_the_model_fixes_is_refused_with_its_size() -> None:
    with pytest.raises(TorchportError, match="TP0106.*input:1.*axis 1 is always 4"):
        record(nn.Linear(4, 3), torch.randn(2, 4), dynamic="input:1")


def test_an_axis_that_must_equal_another_is_refused_with_both() -> None:
    x = torch.randn(1, 4)
    with pytest.raises(TorchportError, match="TP0106.*x:0") as caught:
        record(Pair(), (x, x), dynamic="x:0")
    assert "x:0,y:0" in (caught.value.fix or "")
    assert free(record(Pair(), (x, x), dynamic="x:0,y:0")) == {("x", 0)}
