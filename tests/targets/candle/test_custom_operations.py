"""Operations of a user's package: with Rust of the user's own they are proven, without it they are named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import torchport
from torchport.targets.candle.lowering import LOWERED
from torchport.targets.candle.registry import OPS

PAGE = Path(__file__).parents[3] / "docs" / "custom-operations.md"


@pytest.fixture
def page() -> Iterator[None]:
    """The code of the page has run."""
    before = dict(OPS), dict(LOWERED)
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), {})
    yield
    for table, kept in zip((OPS, LOWERED), before, strict=True):
        table.clear()
        table.update(kept)


@torch.library.custom_op("torchport_tests::spread", mutates_args=())
def spread(
    x: torch.Tensor, offset: torch.Tensor | None, sizes: list[int], scale: float = 2.0, *, deep: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    shifted = x * scale if offset is None else x * scale + offset
    return shifted, shifted.sum(-1) * (sizes[0] + (100 if deep else 0))


@spread.register_fake
def _(
    x: torch.Tensor, offset: torch.Tensor | None, sizes: list[int], scale: float = 2.0, *, deep: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), torch.empty(x.shape[:-1])


SPREAD = """
fn spread(x: &Tensor, offset: Option<&Tensor>, sizes: &[i64], scale: f64, deep: bool) -> Result<(Tensor, Tensor)> {
    let mut shifted = (x * scale)?;
    if let Some(offset) = offset {
        shifted = ops::add(&shifted, offset)?;
    }
    let factor = sizes[0] as f64 + if deep { 100.0 } else { 0.0 };
    let sum = (ops::sum(&shifted, &[x.rank() - 1], false)? * factor)?;
    Ok((shifted, sum))
}
"""


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.ops.mylib.leaky_square(self.linear(x), 0.25)
        first = torch.ops.torchport_tests.spread(y, None, [3])
        second = torch.ops.torchport_tests.spread(y, x, [2, 5], 1.5, deep=True)
        return *first, *second


@pytest.mark.builds
def test_operation_with_registered_rust_is_proven(tmp_path: Path, page: None) -> None:
    torchport.candle.lowers("torchport_tests::spread")(lambda: SPREAD)
    port = torchport.port(Model(), (torch.randn(4, 6),), out=tmp_path)
    assert port.artifact.todos == ()
    assert port.check().passed
    assert port.check((torch.randn(7, 6),)).passed


def test_operation_without_rust_is_named_with_how_to_register_it(tmp_path: Path, page: None) -> None:
    todos = torchport.port(Model(), (torch.randn(4, 6),), out=tmp_path).artifact.todos
    assert {todo.op for todo in todos} == {"torchport_tests.spread.default"}
    assert '@torchport.candle.lowers("torchport_tests::spread")' in todos[0].reason


def test_name_that_torch_does_not_know_raises() -> None:
    with pytest.raises(ValueError, match=r"torch has no operation nowhere\.op\.default"):
        torchport.candle.lowers("nowhere::op")(lambda: "fn op() {}")
    with pytest.raises(ValueError, match="is not the name of an operation"):
        torchport.candle.lowers("relu")


def test_rust_without_a_function_raises() -> None:
    with pytest.raises(ValueError, match="has no function"):
        torchport.candle.lowers("torchport_tests::spread")(lambda: "let x = 1;")
