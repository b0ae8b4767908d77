"""Kernels that choose otherwise among values that are as good raise no alarm; those that choose wrongly are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport.arithmetic.classes import find_arithmetic
from torchport.debug.adapters.capabilities import AcceleratorCapabilities
from torchport.debug.comparing import ComparisonConfig
from torchport.debug.kernel_diff.choosing import CHOOSERS, bound
from torchport.debug.kernel_diff.harness import KernelDiffHarness
from torchport.runs.report import Report

from .planted import Planted

aten: Any = torch.ops.aten
in_tf32: Any = find_arithmetic("tf32").operands
PRODUCTS = {
    aten.convolution.default: (0, 1),
    aten.convolution_backward.default: (0, 1, 2),
    aten.mm.default: (0, 1),
    aten.addmm.default: (1, 2),
}
"""The operands of products, by place."""
Change = Callable[[Tensor], Tensor]


class Tf32(Planted):
    """Products of TF32 operands in float32's sums, as NVIDIA's kernels do; in graphs that are not observed, the results
    of one operation may be changed."""

    capabilities = AcceleratorCapabilities("tf32", arithmetic="tf32")
    rounded = PRODUCTS

    def __init__(self, changed: str = "", change: Change = lambda value: value) -> None:
        super().__init__()
        self.changed, self.change = changed, change

    def compile(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        changed, change = self.changed, self.change
        given, all_rounded = set(module.graph.output_node().args[0]), self.rounded  # type: ignore[arg-type]
        calls = (node for node in module.graph.nodes if node.op == "call_function")
        is_observed = all(node in given for node in calls if isinstance(node.meta["val"], Tensor))

        class Kernels(torch.fx.Interpreter):
            def run_node(self, node: torch.fx.Node) -> Any:
                found = super().run_node(node)
                return change(found) if node.name == changed and not is_observed else found

            def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
                rounded = all_rounded.get(target, ())
                args = [in_tf32(one) if place in rounded else one for place, one in enumerate(args)]
                return super().call_function(target, tuple(args), kwargs)

        return lambda *args: Kernels(module).run(*args)


class Pooled(nn.Module):
    """A convolution, its largest elements, and where they are."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 16, 5, padding=2), nn.BatchNorm2d(16)
        self.pool = nn.MaxPool2d(3, 2, 1, return_indices=True)

    def forward(self, x: Tensor) -> Any:
        return self.pool(torch.relu(self.norm(self.conv(x))) - 0.1 * x.mean())


class Ranked(nn.Module):
    """The places of the largest scores, in a module that computes the scores as well."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(64, 4096)

    def forward(self, x: Tensor) -> Any:
        scores = self.score(x).flatten()
        return scores.argmax(), scores.topk(256)[1], scores > 0, scores.relu() <= 0


def compared(model: nn.Module, given: Tensor, backend: Any, *, gradients: bool = False) -> Report:
    harness = KernelDiffHarness(
        model.eval(),
        given,
        model_name="model",
        test_backend=backend,
        config=ComparisonConfig(gradients=gradients),
    )
    return harness.compare().report


def reasons(report: Report) -> dict[str, str]:
    return {layer.name: layer.reason for layer in report.layers if layer.passed and layer.reason}


@pytest.fixture
def image() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(4, 3, 48, 48)


def test_places_that_are_as_good_in_tf32_raise_no_alarm(image: Tensor) -> None:
    report = compared(Pooled(), image, Tf32())
    assert report.status == "pass", report.first_divergence
    assert "given what the backend chose" in reasons(report)["forward graph"]
    assert "given what the backend chose" in reasons(report)["model"]


def second(places: Tensor) -> Tensor:
    """The element after the one that is to be chosen, mostly in the same window."""
    return places + 1


def one_wrong(places: Tensor) -> Tensor:
    changed = places.clone()
    changed.view(-1)[100] += 1
    return changed


def outside(places: Tensor) -> Tensor:
    """Always the first element, which is in the window of the first place alone."""
    return torch.zeros_like(places)


def none_at_all(places: Tensor) -> Tensor:
    return places - 48 * 48


@pytest.mark.parametrize(
    "wrong", [second, one_wrong, outside, none_at_all], ids=lambda one: str(one.__name__)
)
def test_a_wrong_place_is_found_in_a_graph_that_is_not_observed(image: Tensor, wrong: Change) -> None:
    report = compared(Pooled(), image, Tf32("getitem_4", wrong))
    failed = {layer.name for layer in report.layers if not layer.passed}
    assert report.status == "fail" and {"forward graph"} <= failed, (report.status, failed)


def test_ranks_that_are_as_good_raise_no_alarm_and_wrong_ones_do() -> None:
    torch.manual_seed(1)
    model, given = Ranked(), torch.randn(4, 64)
    right = compared(model, given, Tf32())
    assert right.status == "pass", right.first_divergence
    assert {"forward graph", "model"} <= reasons(right).keys()
    for name, wrong in {
        "argmax": lambda place: place - 1,
        "getitem_1": lambda places: places.roll(1),
        "gt": lambda mask: ~mask,
        "le": torch.zeros_like,  # As "less than" gives, by which nothing is lost at any element.
    }.items():
        assert compared(model, given, Tf32(name, wrong)).status == "fail", name


def test_a_sum_that_is_too_coarse_for_the_class_is_no_excuse(image: Tensor) -> None:
    """bfloat16 chooses otherwise at many places that TF32 does not."""

    class Coarser(Tf32):
        def compile(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
            run = super().compile(module, inputs)
            return lambda *args: run(
                *(one.bfloat16().float() if one.is_floating_point() else one for one in args)
            )

    report = compared(Pooled(), image, Coarser())
    assert report.status == "fail" and "forward graph" not in reasons(report)


class Kept(nn.Module):
    """Sums of products, of which those are kept that are positive."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bias = nn.Conv2d(3, 8, 3, bias=False), nn.Parameter(torch.randn(8, 1, 1))

    def forward(self, x: Tensor) -> Any:
        return torch.relu(self.conv(x) + self.bias).tanh()


class OneSide(Tf32):
    """Kernels that round one operand of a convolution, which TF32 allows, and keep other elements than it would."""

    rounded = PRODUCTS | {aten.convolution.default: (0,)}


def at_the_edge() -> tuple[nn.Module, Tensor]:
    """A model with a sum that is positive only in kernels of `OneSide`, or only in all others."""
    torch.manual_seed(0)
    model, x = Kept(), torch.randn(1, 3, 6, 6)
    weight, bias, conv2d = model.conv.weight.detach(), model.bias.detach(), nn.functional.conv2d
    true = conv2d(x.double(), weight.double()) + bias
    coarse = conv2d(in_tf32(x), in_tf32(weight)).double() + bias
    other = conv2d(in_tf32(x), weight).double() + bias
    low, high = torch.minimum(true, coarse), torch.maximum(true, coarse)
    beyond = torch.maximum(other - high, low - other)
    place = int(beyond.argmax())
    nearest = high if other.flatten()[place] > high.flatten()[place] else low
    edge = (other.flatten()[place] + nearest.flatten()[place]) / 2
    with torch.no_grad():
        model.bias[place // other[0, 0].numel()] -= edge.float()
    return model, x


def test_gradients_are_judged_given_the_elements_that_the_forward_pass_has_kept() -> None:
    model, x = at_the_edge()
    report = compared(model, x, OneSide(), gradients=True)
    assert report.status == "pass", report.first_divergence
    assert "given what the backend's forward graph gave" in reasons(report)["conv.weight"]
    assert compared(model, x, Tf32(), gradients=True).status == "pass"


def lost(kept: Tensor) -> Tensor:
    """The largest element is not kept."""
    return torch.where(kept == kept.max(), 0.0, kept)


def scaled(gradient: Any) -> Any:
    return 1.01 * gradient if isinstance(gradient, Tensor) else tuple(1.01 * one for one in gradient)


@pytest.mark.parametrize(("changed", "wrong"), [("relu", lost), ("threshold_backward", scaled)])
def test_a_wrong_forward_pass_excuses_no_gradient_and_a_wrong_gradient_is_found(
    changed: str, wrong: Any
) -> None:
    model, x = at_the_edge()
    report = compared(model, x, OneSide(changed, wrong), gradients=True)
    assert report.status == "fail"
    assert "conv.weight" in {layer.name for layer in report.layers if not layer.passed}


def values_of(name: str) -> Tensor:
    torch.manual_seed(2)
    if name.startswith("aten.max_pool3d"):
        return torch.randn(2, 3, 6, 7, 8)
    return torch.randn(2, 3, 9, 8) if name.startswith("aten.max_pool2d") else torch.randn(6, 9)


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "aten.max_pool2d_with_indices.default": ([3, 2], [2, 2], [1, 1], [1, 2]),
    "aten.max_pool3d_with_indices.default": ([3, 2, 2], [2, 1, 2], [1, 0, 1]),
    "aten.max.dim": (1,),
    "aten.min.dim": (0, True),
    "aten.topk.default": (4, 1, False),
    "aten.sort.default": (0, True),
    "aten.argmax.default": (1,),
    "aten.argmin.default": (),
}


@pytest.mark.parametrize("func", list(CHOOSERS), ids=str)
def test_what_an_operation_chooses_lacks_nothing_and_anything_else_does(func: Any) -> None:
    values, how = values_of(str(func)), CHOOSERS[func]
    is_pair = how.sides == ("self", "other")
    other = 0.1 if str(func).endswith("Scalar") else values.flip(0)
    args = (values, other) if is_pair else (values, *ARGUMENTS.get(str(func), ()))
    kwargs = {"stable": True} if str(func) == "aten.sort.stable" else {}
    found = func(*args, **kwargs)
    chosen = found if how.place is None else found[how.place]
    given = bound(func, args, kwargs)
    assert not how.deficit(found, given, chosen).any()
    wrong = ~chosen if is_pair else torch.where(chosen > 0, chosen - 1, chosen + 1)
    assert bool((how.deficit(found, given, wrong) > 0).all())
    assert chosen.shape == how.deficit(found, given, wrong).shape
    if not is_pair:
        assert bool(torch.isinf(how.deficit(found, given, chosen + 10**6)).all())


def test_equal_elements_keep_their_order_if_that_is_asked_for() -> None:
    values = torch.zeros(4)
    for func, is_infinite in ((aten.sort.stable, True), (aten.sort.default, False)):
        kwargs = {"stable": True} if is_infinite else {}
        found, given = func(values, **kwargs), bound(func, (values,), kwargs)
        swapped = torch.tensor([1, 0, 2, 3])
        deficit = CHOOSERS[func].deficit(found, given, swapped)
        assert bool(torch.isinf(deficit).any()) is is_infinite
