"""What excuses a value that is out of bounds excuses no wrong kernel: faults that hide behind the excuses are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport.debug.comparing import ComparisonConfig
from torchport.debug.internals.observing import inductor_decompositions
from torchport.debug.kernel_diff.harness import KernelDiffHarness
from torchport.parity.result import Layer
from torchport.runs.report import Report

from .planted import Planted

aten: Any = torch.ops.aten


class TakenApart(Planted):
    """A backend that is given operations taken apart as Inductor is, of which some are computed otherwise."""

    def __init__(self, others: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__()
        self.others, self.decompositions = others, inductor_decompositions()

    def compile(self, module: torch.fx.GraphModule, inputs: Any) -> Any:
        others = self.others

        class Kernels(torch.fx.Interpreter):
            def run_node(self, node: torch.fx.Node) -> Any:
                if node.name not in others:
                    return super().run_node(node)
                args, kwargs = self.fetch_args_kwargs_from_env(node)
                return others[node.name](*args, **kwargs)

        return lambda *given: Kernels(module).run(*given)


class Soft(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return x.softmax(-1)


class Curved(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return nn.functional.gelu(x)


class Twice(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return nn.functional.gelu(nn.functional.gelu(x))


class Products(nn.Module):
    """Two products on one line, which one operation is not."""

    def forward(self, x: Tensor) -> Any:
        return torch.sin(x * 0.5 * 2.0)


class Normed(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return nn.functional.layer_norm(x, (64,))


def compared(
    model: nn.Module,
    others: Mapping[str, Callable[..., Any]],
    given: Any = None,
    keeps_digits: bool | None = None,
) -> tuple[Report, dict[str, Layer]]:
    torch.manual_seed(0)
    given = torch.randn(64, 64) if given is None else given
    config = ComparisonConfig(gradients=False, keeps_digits=keeps_digits)
    harness = KernelDiffHarness(
        model, given, model_name="model", test_backend=TakenApart(others), config=config
    )
    report = harness.compare().report
    return report, {layer.name: layer for layer in report.layers}


HIDDEN: list[tuple[type[nn.Module], dict[str, Callable[..., Any]], str]] = [
    (Soft, {"amax": lambda x, *rest: aten.amax(x, *rest) + 3.0}, "forward graph/amax"),
    (Soft, {"amax": lambda x, *rest: torch.zeros_like(aten.amax(x, *rest))}, "forward graph/amax"),
    (
        Soft,
        {
            "exp": lambda x: aten.exp(x) * 1.001,
            "sum_1": lambda x, *rest: aten.sum(x, *rest),
        },
        "forward graph/exp",
    ),
    (
        Curved,
        {"mul_1": lambda x, y: x * y * 1.01, "erf": lambda x: aten.erf(x / 1.01)},
        "forward graph/mul_1",
    ),
    (Products, {"mul": lambda x, y: x * y * 1.02, "mul_1": lambda x, y: x * y / 1.02}, "forward graph/mul"),
    (
        Normed,
        {"rsqrt": lambda x: aten.rsqrt(x) * 1.01, "mul": lambda x, y: x * y / 1.01},
        "forward graph/rsqrt",
    ),
    (
        Twice,
        {
            "mul_2": lambda x, y: x * y + 1e-3,
            "mul_3": lambda x, y: (x - 1e-3) * y,
            "mul_4": lambda x, y: (x - 1e-3) * y,
        },
        "forward graph/mul_2",
    ),
]


@pytest.mark.parametrize(("kind", "others", "culprit"), HIDDEN)
def test_faults_that_cancel_out_in_what_leaves_an_operation_are_found(
    kind: type[nn.Module], others: dict[str, Callable[..., Any]], culprit: str
) -> None:
    report, rows = compared(kind(), others)
    assert report.first_divergence is not None, [row.reason for row in rows.values()]
    assert report.first_divergence.layer == culprit
    assert set(others) <= {name.rpartition("/")[2] for name in rows}


def test_a_part_that_is_a_little_less_exact_is_excused_if_what_leaves_the_operation_is_right() -> None:
    """A maximum that is some roundings off, which no softmax depends on."""
    others = {"amax": lambda x, *rest: aten.amax(x, *rest) * (1 + 6e-7)}
    report, rows = compared(Soft(), others)
    assert report.first_divergence is None
    assert "inside of aten._softmax.default" in (rows["forward graph/amax"].reason or "")


class Cancelling(nn.Module):
    """The sum loses nearly all digits of what goes into it, and the difference has but those that are left."""

    def forward(self, x: Tensor) -> Any:
        return torch.sub(x + 4096.0, 4096.0)


@pytest.mark.parametrize("factor", [1.001, 1.0001])
def test_an_operation_after_one_that_loses_digits_is_not_excused_for_what_that_loses(factor: float) -> None:
    others = {"sub": lambda x, y: (x - y) * factor}
    report, _ = compared(Cancelling(), others, keeps_digits=True)
    assert report.first_divergence is not None
    assert report.first_divergence.layer == "forward graph/sub"


def test_operations_that_undo_each_others_faults_are_found_if_kernels_keep_digits() -> None:
    class Row(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return torch.tanh(torch.sin(torch.exp(x)))

    others = {"exp": lambda x: aten.exp(x) * 1.01, "sin": lambda x: aten.sin(x / 1.01)}
    report, _ = compared(Row(), others, keeps_digits=True)
    assert report.first_divergence is not None
    assert report.first_divergence.layer == "forward graph/exp"
