"""Operations of a user's package: with Rust of the user's own they are proven, without it they are named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import torchport
from torchport.capture.recorder import record
from torchport.targets.candle import ops
from torchport.targets.candle.lowering import LOWERED, sources
from torchport.targets.candle.registry import OPS

assert ops  # importing it fills the table

PAGE = Path(__file__).parents[3] / "docs" / "custom-operations.md"


@pytest.fixture
def registered() -> Iterator[None]:
    """What a test registers is forgotten behind it."""
    before = dict(OPS), dict(LOWERED)
    yield
    for table, kept in zip((OPS, LOWERED), before, strict=True):
        table.clear()
        table.update(kept)


@pytest.fixture
def page(registered: None) -> None:
    """The code of the page has run."""
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), {})


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


class _Scaled:
    """Operations of two packages with one name, one of which is also the name of an operation of torch."""

    def __init__(self) -> None:
        self.libraries = []
        for factor, package in enumerate(("torchport_tests_a", "torchport_tests_b"), 2):
            library = torch.library.Library(package, "DEF")  # type: ignore[no-untyped-call]
            library.define("relu(Tensor x) -> Tensor")
            library.impl("relu", lambda x, factor=factor: x * factor, "CompositeExplicitAutograd")
            self.libraries.append(library)


SCALED = _Scaled()


def scaled(factor: int) -> str:
    return f"""
    fn by(x: &Tensor, factor: f64) -> Result<Tensor> {{
        x * factor
    }}

    fn relu(x: &Tensor) -> Result<Tensor> {{
        by(x, {factor}.0)
    }}
    """


class OfTwoPackages(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        relu = torch.ops.torchport_tests_a.relu(x)
        relu = torch.ops.torchport_tests_b.relu(relu.tanh() + relu) * relu
        return torch.ops.torchport_tests_a.relu(relu) + torch.relu(x)


@pytest.mark.builds
def test_names_in_the_rust_of_an_operation_are_its_own(tmp_path: Path, registered: None) -> None:
    torchport.candle.lowers("torchport_tests_a::relu")(lambda: scaled(2))
    torchport.candle.lowers("torchport_tests_b::relu")(lambda: scaled(3))
    port = torchport.port(OfTwoPackages(), (torch.randn(4, 6),), out=tmp_path)
    assert port.artifact.todos == () and port.check().passed


def test_only_what_is_called_is_in_the_source(registered: None) -> None:
    torchport.candle.lowers("torchport_tests_a::relu")(lambda: scaled(2))
    assert sources("let xs = ops::relu(xs)?;") == []
    (text,) = sources("let xs = torchport_tests_a_relu::relu(xs)?;")
    assert text.startswith("mod torchport_tests_a_relu {") and "pub fn relu(" in text and "\nfn by(" in text


def test_a_file_that_registers_rust_may_run_twice_and_other_rust_is_refused(registered: None) -> None:
    for _ in range(2):
        torchport.candle.lowers("torchport_tests_a::relu")(lambda: scaled(2))
    with pytest.raises(ValueError, match="registered twice"):
        torchport.candle.lowers("torchport_tests_a::relu")(lambda: scaled(5))


def test_one_of_several_functions_must_have_the_name_of_the_operation(registered: None) -> None:
    both = scaled(2).replace("relu", "other")
    with pytest.raises(ValueError, match=r"has the functions by, other: call the one that is meant relu"):
        torchport.candle.lowers("torchport_tests_a::relu")(lambda: both)


def test_operation_without_rust_is_named_with_how_to_register_it(tmp_path: Path, page: None) -> None:
    todos = torchport.port(Model(), (torch.randn(4, 6),), out=tmp_path).artifact.todos
    assert {todo.op for todo in todos} == {"torchport_tests.spread.default"}
    assert '@torchport.candle.lowers("torchport_tests::spread")' in todos[0].reason


@torch.library.custom_op("torchport_tests::double_in_place", mutates_args=("x",))
def double_in_place(x: torch.Tensor) -> None:
    x.mul_(2)


class Writing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        torch.ops.torchport_tests.double_in_place(y)
        return y + 1


def test_operation_that_writes_to_what_it_is_given_is_named_with_what_to_do() -> None:
    error = record(Writing(), (torch.randn(2, 3),)).export_error
    assert error is not None and error.where is not None and error.where.startswith(f"{__file__}:")
    assert "torchport_tests::double_in_place writes to x" in error.message
    assert "mutates_args=()" in (error.fix or "")


def test_name_that_torch_does_not_know_raises() -> None:
    with pytest.raises(ValueError, match=r"torch has no operation nowhere\.op\.default"):
        torchport.candle.lowers("nowhere::op")(lambda: "fn op() {}")
    with pytest.raises(ValueError, match="is not the name of an operation"):
        torchport.candle.lowers("relu")


def test_rust_without_a_function_raises() -> None:
    with pytest.raises(ValueError, match="has no function"):
        torchport.candle.lowers("torchport_tests::spread")(lambda: "let x = 1;")
