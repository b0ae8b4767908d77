"""The operation table: names are whole and known, entries are single, and arguments are never dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import torchport
from torchport.capture.operations import overload
from torchport.targets.base import Todo
from torchport.targets.candle import ops
from torchport.targets.candle.code import EMPTY, call
from torchport.targets.candle.registry import OPS, register, rows
from torchport.targets.candle.target import TARGET

assert ops  # importing it fills the table


@pytest.fixture(autouse=True)
def _same_table_afterwards() -> Iterator[None]:
    before = dict(OPS)
    yield
    OPS.clear()
    OPS.update(before)


class Calls(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def unmapped(tmp_path: Path, model: nn.Module, x: Tensor) -> tuple[Todo, ...]:
    return torchport.port(model, (x,), out=tmp_path).artifact.todos


@pytest.mark.parametrize(
    "name",
    [
        "aten.no_such_operation.default",
        "aten.relu.no_such_overload",
        "aten.relu",
        "relu",
        "nowhere.relu.default",
    ],
)
def test_a_name_that_torch_does_not_know_raises(name: str) -> None:
    with pytest.raises(ValueError, match=f"torch has no operation {name}"):
        register(name, lambda e, a: EMPTY)
    assert name not in OPS


def test_a_second_entry_for_a_name_raises() -> None:
    with pytest.raises(ValueError, match=r"aten\.relu\.default is registered twice"):
        rows({"aten.relu.default": "ops::relu({self})?"})


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_entry_names_an_overload_of_torch(name: str) -> None:
    assert str(overload(name)) == name


@pytest.mark.parametrize(
    "name", ["aten.relu", "relu.default", "aten.relu.defaul", "ten.relu.default", "aten.elu.out"]
)
def test_part_of_a_name_is_not_mapped(name: str) -> None:
    assert TARGET.supports("aten.relu.default")
    assert not TARGET.supports(name)


def test_an_argument_that_no_row_reads_becomes_a_todo(tmp_path: Path) -> None:
    """A row that ignored `approximate` would give the wrong function without a word."""
    del OPS["aten.gelu.default"]
    rows({"aten.gelu.default": "ops::gelu({self})?"})
    (todo,) = unmapped(
        tmp_path, Calls(lambda x: 2 * nn.functional.gelu(x, approximate="tanh")), torch.randn(3, 4)
    )
    assert todo.op == "aten.gelu.default"
    assert todo.reason == "its argument approximate='tanh' is not handled"


def test_an_argument_with_its_default_need_not_be_read(tmp_path: Path) -> None:
    del OPS["aten.gelu.default"]
    rows({"aten.gelu.default": "ops::gelu({self})?"})
    assert unmapped(tmp_path, Calls(lambda x: 2 * nn.functional.gelu(x)), torch.randn(3, 4)) == ()


def test_a_function_that_reads_no_argument_becomes_a_todo_too(tmp_path: Path) -> None:
    del OPS["aten.add.Tensor"]
    register("aten.add.Tensor", lambda e, a: call("ops::add", e.ref(a["self"]), e.ref(a["other"])))
    (todo,) = unmapped(tmp_path, Calls(lambda x: torch.add(x, x, alpha=2)), torch.randn(3, 4))
    assert "alpha=2" in todo.reason


def test_an_unmapped_operation_is_a_todo_with_its_line(tmp_path: Path) -> None:
    (todo,) = unmapped(tmp_path, Calls(torch.special.bessel_y1), torch.randn(3, 4))
    assert todo.op == "aten.special_bessel_y1.default"
    assert todo.source is not None
    assert todo.source.startswith(f"{__file__}:")


def test_an_integer_that_floating_point_would_round_is_a_todo(tmp_path: Path) -> None:
    (todo,) = unmapped(tmp_path, Calls(lambda x: x + (2**53 + 1)), torch.arange(3))
    assert "9007199254740993 is not exact" in todo.reason
