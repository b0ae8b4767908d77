"""An adapter is a backend of torch.compile: forward and backward graphs reach it, checked, and its results are held."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport.debug.adapters.base import AcceleratorAdapter
from torchport.debug.adapters.capabilities import AcceleratorCapabilities
from torchport.debug.adapters.mock import MockAcceleratorAdapter
from torchport.errors import CompileError, UsageError


class Everything(nn.Module):
    """Writes in place, takes views, draws random numbers, chooses a branch, and gives nested outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> dict[str, Any]:
        self.calls.add_(1)
        hidden = nn.functional.dropout(self.norm(self.up(x)).relu_(), 0.5, self.training)
        hidden = torch.cond(hidden.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (hidden,))
        return {"out": self.down(hidden), "parts": [hidden[:, ::2].t(), hidden]}


class Noting(AcceleratorAdapter):
    """Runs operations as they are, and keeps their names."""

    capabilities = AcceleratorCapabilities("noting")

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run_node(self, op: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        self.ran.append(str(op))
        return op(*args, **kwargs)


def seeded(model: nn.Module, x: Tensor) -> Any:
    torch.manual_seed(1)
    return model(x)


@pytest.mark.parametrize("training", [True, False])
def test_a_model_with_everything_computes_and_learns_the_same(training: bool) -> None:
    model, adapter = Everything().train(training), Noting()
    twin = copy.deepcopy(model)
    compiled = torch.compile(twin, backend=adapter)
    for rows in (4, 5):  # The second call has a graph whose size is free.
        x = torch.randn(rows, 8)
        golden, candidate = seeded(model, x), seeded(compiled, x)
        torch.testing.assert_close(candidate, golden, rtol=0, atol=0)
        golden["out"].sum().backward()
        candidate["out"].sum().backward()
    for (name, one), other in zip(model.named_parameters(), twin.parameters()):
        torch.testing.assert_close(other.grad, one.grad, rtol=0, atol=0, msg=name)
    assert twin.calls == 2 and torch.equal(model.norm.running_mean, twin.norm.running_mean)
    assert {graph.stage for graph in adapter.session.graphs} == {"dynamo", "forward", "backward"}
    assert {"aten.addmm.default", "aten.sin.default", "aten.mm.default"} <= set(adapter.ran)


def test_without_gradients_there_is_no_backward_graph() -> None:
    adapter = Noting()
    with torch.no_grad():
        torch.compile(nn.Linear(3, 2), backend=adapter)(torch.ones(1, 3))
    assert [graph.stage for graph in adapter.session.graphs] == ["dynamo", "forward"]


def test_a_mock_runs_no_kernel_and_gives_eager_s_numbers() -> None:
    model, adapter = nn.Linear(3, 2), MockAcceleratorAdapter()
    x = torch.randn(4, 3)
    assert torch.equal(torch.compile(model, backend=adapter)(x), model(x))
    assert not adapter.runs_kernels and Noting.runs_kernels


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,))


def limited(**limits: Any) -> MockAcceleratorAdapter:
    return MockAcceleratorAdapter(AcceleratorCapabilities("limited", **limits))


def test_an_operation_that_is_not_allowed_is_found_also_in_a_branch_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    adapter = limited(allowed_operations={"aten.sum.*", "aten.gt.Scalar", "*cond*", "aten.sin.default"})
    with caplog.at_level(logging.WARNING, "torchport.debug"):
        torch.compile(Branching(), backend=adapter)(torch.ones(3))
    (found,) = adapter.session.violations
    assert found.op == "aten.cos.default"
    assert "aten.cos.default" in caplog.text and found.source and __file__ in found.source


class Columns(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.gelu(x.t()) + 1


@pytest.mark.parametrize(
    ("limits", "constraint", "op"),
    [
        ({"alignment": 4}, "shape", "placeholder"),
        ({"dtypes": {torch.bfloat16}}, "dtype", "placeholder"),
        ({"max_tensor_bytes": 47}, "memory", "placeholder"),
        ({"memory_bytes": 100}, "memory", "aten.add.Tensor"),
        ({"layouts": {"contiguous"}}, "layout", "torch.Tensor.t"),
        ({"layouts": {"contiguous", "channels_last"}}, "layout", "torch.Tensor.t"),
        ({"denied_operations": {"aten.gelu.default"}}, "unsupported_ops", "aten.gelu.default"),
        ({"denied_patterns": {"aten.gel*"}}, "unsupported_ops", "aten.gelu.default"),
    ],
)
def test_every_limit_of_an_accelerator_is_checked(limits: dict[str, Any], constraint: str, op: str) -> None:
    adapter = limited(**limits)
    torch.compile(Columns(), backend=adapter)(torch.ones(4, 3))
    found = {(violation.constraint, violation.op) for violation in adapter.session.violations}
    assert {name for name, _ in found} == {constraint} and (constraint, op) in found


def test_a_graph_with_free_sizes_is_checked_for_each_size_that_comes() -> None:
    adapter = limited(alignment=4)
    compiled = torch.compile(Columns(), backend=adapter, dynamic=True)
    compiled(torch.ones(8, 4))
    assert not adapter.session.violations
    compiled(torch.ones(12, 4))
    assert not adapter.session.violations
    compiled(torch.ones(9, 4))
    assert {violation.constraint for violation in adapter.session.violations} == {"shape"}
    assert len({graph.name for graph in adapter.session.graphs}) == 1


def test_sizes_that_are_free_and_backward_graphs_can_be_refused() -> None:
    adapter = limited(dynamic_shapes=False, training=False)
    compiled = torch.compile(nn.Linear(3, 2), backend=adapter, dynamic=True)
    compiled(torch.ones(4, 3)).sum().backward()
    assert {found.constraint for found in adapter.session.violations} == {"fixed shapes", "inference only"}


def test_strict_stops_at_the_users_line() -> None:
    adapter = limited(allowed_operations={"aten.sum.*"})
    with pytest.raises(Exception, match="TP1001") as caught:
        torch.compile(Branching(), backend=adapter, options={"strict": True})(torch.ones(3))
    assert "aten.sin.default is not among what it can run" in str(caught.value) and __file__ in str(
        caught.value
    )


def test_an_option_that_is_not_there_is_refused() -> None:
    with pytest.raises(Exception, match="no option speed"):
        torch.compile(nn.Linear(3, 2), backend=Noting(), options={"speed": 9})(torch.ones(1, 3))


class Whole(AcceleratorAdapter):
    """Compiles whole graphs, and gives what `change` makes of the results."""

    capabilities = AcceleratorCapabilities("whole")

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self.change = change

    def compile(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return lambda *inputs: self.change(gm(*inputs))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda given: given[:0], "gives 0 values for a graph that gives a sequence of 1"),
        (lambda given: given[0], "gives Tensor for a graph"),
        (lambda given: [given[0][:1]], "float32 [1, 2] on cpu, not float32 [4, 2] on cpu, as output 0"),
        (lambda given: [given[0].double()], "float64 [4, 2] on cpu, not float32"),
        (lambda given: [None], "NoneType, not a tensor,"),
    ],
)
def test_results_that_do_not_fit_the_graph_are_refused(change: Callable[[Any], Any], message: str) -> None:
    compiled = torch.compile(nn.Linear(3, 2), backend=Whole(change))
    with pytest.raises(CompileError) as caught, torch.no_grad():
        compiled(torch.ones(4, 3))
    assert caught.value.code == "TP1053" and message in caught.value.message


def test_what_an_adapter_raises_names_the_adapter() -> None:
    class Raising(Noting):
        def compile(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
            raise RuntimeError("out of tiles")

    with pytest.raises(Exception, match="backend='noting' raised:\\s+RuntimeError: out of tiles"):
        torch.compile(nn.Linear(3, 2), backend=Raising())(torch.ones(1, 3))


def test_an_adapter_needs_a_way_to_run() -> None:
    class Empty(AcceleratorAdapter):
        capabilities = AcceleratorCapabilities("empty")

    with pytest.raises(UsageError, match="neither compile nor run_node"):
        Empty()


def test_a_registered_adapter_is_found_by_its_name_and_keeps_it() -> None:
    adapter = Noting()
    assert adapter.register() == adapter.register() == "torchport_noting"
    torch.compile(nn.Linear(3, 2), backend="torchport_noting")(torch.ones(1, 3))
    assert "aten.addmm.default" in adapter.ran
    with pytest.raises(UsageError, match="another backend called torchport_noting"):
        Noting().register()
