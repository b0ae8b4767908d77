"""Denied operations: every way of naming one, and names that are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from torchport.debug.backends.mock import aot_mock_backend
from torchport.debug.constraints import UnsupportedOpsConstraint
from torchport.debug.constraints.operation_names import full_names
from torchport.debug.session import Session
from torchport.errors import UsageError

WAYS = {
    "overload": UnsupportedOpsConstraint({"aten.convolution.default"}),
    "operation": UnsupportedOpsConstraint({"aten.convolution"}),
    "as the dispatcher writes it": UnsupportedOpsConstraint({"aten::convolution"}),
    "object": UnsupportedOpsConstraint({torch.ops.aten.convolution}),
    "composite operation": UnsupportedOpsConstraint({"aten.conv2d"}),
    "function": UnsupportedOpsConstraint({"torch.nn.functional.conv2d"}),
    "function itself": UnsupportedOpsConstraint({functional.conv2d}),
    "pattern": UnsupportedOpsConstraint(patterns=["aten.conv*tion"]),
}
for way, constraint in WAYS.items():
    constraint.name = way
OTHERS = UnsupportedOpsConstraint(
    {"aten.conv1d", "aten.conv3d", "aten.softmax", "torch.nn.functional.conv_transpose2d"}
)


@pytest.fixture(scope="module")
def resnet() -> Session:
    """What a compilation of resnet18 finds, with its convolutions denied in every way."""
    import torchvision

    torch._dynamo.reset()
    model = torchvision.models.resnet18().eval()
    backend = aot_mock_backend(strict=False, constraints=[*WAYS.values(), OTHERS])
    with torch.no_grad():
        torch.compile(model, backend=backend)(torch.randn(1, 3, 32, 32))
    session: Session = backend.session
    return session


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_all_convolutions_of_resnet18_are_caught_by_each_way_of_naming_them(
    resnet: Session, way: str
) -> None:
    found = [violation for violation in resnet.distinct_violations if violation.constraint == way]
    import torchvision

    with torch.device("meta"):
        modules = torchvision.models.resnet18().named_modules()
    convolutions = [name for name, module in modules if isinstance(module, torch.nn.Conv2d)]
    assert len(convolutions) == 20
    assert sorted(violation.module for violation in found) == sorted(convolutions)
    assert all(str(violation.source).rpartition(":")[0].endswith("resnet.py") for violation in found)


@pytest.mark.slow
def test_other_convolutions_are_not_taken_for_those_that_are_denied(resnet: Session) -> None:
    assert not [violation for violation in resnet.violations if violation.constraint == "unsupported_ops"]
    assert not resnet.faults


def found_in(
    function: Callable[..., Any], constraint: UnsupportedOpsConstraint, *args: Any
) -> list[tuple[str, str]]:
    backend = aot_mock_backend(strict=False, constraints=[constraint])
    torch.compile(function, backend=backend)(*args)
    return [(violation.stage, violation.op) for violation in backend.session.violations]


def test_a_function_stands_for_the_operation_that_methods_call_too() -> None:
    denied = UnsupportedOpsConstraint({"torch.relu"})
    assert found_in(lambda x: x.relu(), denied, torch.ones(2)) == [("forward", "aten.relu.default")]


def test_an_operation_in_place_is_found_although_atens_graph_does_without() -> None:
    denied = UnsupportedOpsConstraint({"aten.add_"})
    assert found_in(lambda x: x.clone().add_(1), denied, torch.ones(2)) == [("dynamo", "torch.Tensor.add_")]
    assert not found_in(lambda x: x.clone().add(1), denied, torch.ones(2))


def test_operations_in_branches_are_found_and_so_are_the_branches() -> None:
    def branching(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))  # type: ignore[no-any-return]

    both = UnsupportedOpsConstraint({"aten.cos", torch.cond})
    names = {op for _, op in found_in(branching, both, torch.ones(2))}
    assert {"aten.cos.default", "higher_order.cond"} <= names


class Bodies(torch.nn.Module):
    """Convolutions in places where a graph holds another graph."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = checkpoint(self.conv, x, use_reentrant=False)
        return torch.cond(kept.sum() > 0, lambda y: self.conv(y) + 1, lambda y: y.clone(), (kept,))  # type: ignore[no-any-return]


@pytest.mark.parametrize("dynamic", [False, True])
def test_composite_operations_are_found_in_bodies_of_branches_and_checkpoints(dynamic: bool) -> None:
    backend = aot_mock_backend(strict=False, constraints=[UnsupportedOpsConstraint({"aten.conv2d"})])
    torch.compile(Bodies(), backend=backend, dynamic=dynamic)(torch.ones(1, 1, 4, 4, requires_grad=True))
    found = [violation.node for violation in backend.session.violations]
    assert len(found) == 2 and all("." in node for node in found), found
    assert not backend.session.faults


def test_a_graph_that_dynamo_is_about_to_make_anew_stops_nothing() -> None:
    backend = aot_mock_backend(constraints=[UnsupportedOpsConstraint({"aten.conv1d"})])
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
    torch.compile(model, backend=backend, dynamic=True)(torch.ones(2, 1, 4, 4))
    assert not backend.session.faults


@pytest.mark.parametrize(
    ("name", "closest"),
    [
        ("aten.convolutoin", "aten.convolution"),
        ("aten.relu.defalt", "aten.relu.default"),
        ("conv2d", "aten.conv2d"),
        ("torch.nn.Conv2d", "aten.conv2d"),
        ("torch.nn.functional.conv2", "torch.nn.functional.conv2d"),
    ],
)
def test_a_name_that_torch_does_not_know_is_refused_with_the_closest(name: str, closest: str) -> None:
    with pytest.raises(UsageError, match="TP1004: torch has no operation") as refused:
        UnsupportedOpsConstraint(denied={name})
    assert refused.value.fix == f"Did you mean {closest}?"


def test_patterns_are_only_patterns_if_given_as_such_and_must_match_something() -> None:
    with pytest.raises(UsageError, match="is a pattern") as refused:
        UnsupportedOpsConstraint(denied={"aten.*pool*"})
    assert refused.value.fix == "Give it as a pattern: patterns=['aten.*pool*']."
    with pytest.raises(UsageError, match="matches no operation"):
        UnsupportedOpsConstraint(patterns=["aten.*poool*"])
    pools = UnsupportedOpsConstraint(patterns=["aten.*pool*"])
    pooled = found_in(lambda x: functional.max_pool2d(x, 2).relu(), pools, torch.ones(1, 1, 4, 4))
    assert pooled and all("pool" in op for _, op in pooled)


def test_an_overload_denies_itself_and_an_operation_all_of_its_overloads() -> None:
    assert full_names("aten.add.Tensor") == {"aten.add.Tensor"}
    assert {"aten.add.Tensor", "aten.add.Scalar"} <= full_names("aten.add")
    denied = UnsupportedOpsConstraint({"aten.add.Scalar"})
    assert not found_in(lambda x: x + x, denied, torch.ones(2))
