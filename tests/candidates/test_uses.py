"""Uses that are not out of the ordinary for their users: each is compared, or is refused with what to do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from torchport import compare_gradients, compare_models
from torchport.errors import CaptureError
from torchport.runs.report import Report

from .models import Net, Tied, X, honest, net
from .test_forward import culprit, layer, left_out

pytestmark = pytest.mark.slow

Compare = Callable[..., Report]
BOTH = pytest.mark.parametrize("compare", [compare_models, compare_gradients], ids=["forward", "backward"])


def off(module: nn.Module, name: str = "bias") -> None:
    with torch.no_grad():
        getattr(module, name).mul_(1.01)


@BOTH
@pytest.mark.parametrize(
    "normed", [parametrizations.weight_norm, parametrizations.orthogonal], ids=["weight", "orthogonal"]
)
def test_parametrized_modules(compare: Compare, normed: Callable[[nn.Module], nn.Module]) -> None:
    model = net()
    normed(model.blocks[1].up)  # type: ignore[union-attr, arg-type]
    candidate = copy.deepcopy(model)
    assert compare(model, candidate, X).passed
    off(candidate.blocks[1].up)  # type: ignore[union-attr, arg-type]
    assert culprit(compare_models(model, candidate, X)) == "blocks.1.up"


@BOTH
def test_a_parametrized_module_stands_for_a_plain_one(compare: Compare) -> None:
    candidate = net()
    parametrizations.weight_norm(candidate.head)
    report = compare(net(), candidate, X)
    assert report.passed
    if compare is compare_gradients:
        assert left_out(report) == {"head.weight": "not compared: the candidate has no such parameter"}


@BOTH
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_weight_norm_by_hooks_and_spectral_norm_in_training_mode(compare: Compare) -> None:
    def normed() -> Net:
        model = net().train()
        nn.utils.weight_norm(model.head)
        torch.manual_seed(1)
        parametrizations.spectral_norm(model.blocks[0].up)  # type: ignore[union-attr, arg-type]
        return model

    model, candidate = normed(), normed()
    before = copy.deepcopy(candidate.state_dict())
    report = compare(model, candidate, X, state=True)
    assert report.passed and any(one.name.endswith("._u") for one in report.layers)
    assert all(torch.equal(value, before[name]) for name, value in candidate.state_dict().items())


class Odd(nn.Module):
    """A module that is never called, one that returns None, and one that is called with nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.never, self.fc = nn.Linear(32, 32), nn.Linear(32, 32)
        self.silent, self.constant = Silent(), Constant()

    def forward(self, x: Tensor) -> tuple[Tensor, None, dict[str, Any]]:
        self.silent(x)
        return self.fc(x) + self.constant(), None, {}


class Silent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> None:
        self.inner(x)


class Constant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0, 1, 32))

    def forward(self) -> Tensor:
        return self.weight.exp()


@BOTH
def test_modules_that_are_never_called_return_nothing_or_are_given_nothing(compare: Compare) -> None:
    model = Odd()
    report = compare(model, honest(model), X)
    assert report.passed
    if compare is compare_models:
        assert layer(report, "silent").reason == "returns no tensor"
        assert layer(report, "silent.inner").own is not None and layer(report, "constant").own is not None
    else:
        assert "no gradient flows to it" in left_out(report)["never.weight"]
        assert layer(report, "constant.weight").own is not None
    wrong = copy.deepcopy(model)
    off(wrong.constant, "weight")
    assert culprit(compare_models(model, wrong, X)) == "constant"


@BOTH
def test_channels_last_inputs_and_weights(compare: Compare) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)).eval()
    candidate = copy.deepcopy(model).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.randn(2, 3, 12, 12).to(memory_format=torch.channels_last)
    assert compare(model, candidate, images).passed
    off(candidate[2], "weight")
    assert culprit(compare(model, candidate, images, explain=False)).startswith("2")


@BOTH
def test_an_empty_batch_proves_nothing(compare: Compare) -> None:
    report = compare(net(), net(), X[:0])
    assert report.status == "fail" and report.first_divergence is not None
    assert report.first_divergence.reason == "every tensor is empty, so nothing is proven"


@BOTH
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_models_of_other_dtypes(compare: Compare, dtype: torch.dtype) -> None:
    model = net().to(dtype)
    assert compare(model, honest(net()).to(dtype), X.to(dtype)).passed
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong.blocks[1].up.weight *= 1.1  # type: ignore[union-attr, operator]
    assert compare(model, wrong, X.to(dtype), explain=False).status == "fail"


@BOTH
def test_tied_weights_that_a_candidate_unties(compare: Compare) -> None:
    model = Tied()
    candidate = Tied()
    candidate.load_state_dict(model.state_dict())
    candidate.head.weight = nn.Parameter(candidate.head.weight.detach().clone())
    ids = torch.arange(12).reshape(2, 6)
    assert compare_models(model, candidate, (ids,)).passed
    report = compare_gradients(model, candidate, (ids,), explain=False)
    assert not layer(report, "embed.weight").passed


@BOTH
def test_hooks_that_the_user_registered_run_once_and_in_their_place(compare: Compare) -> None:
    def hooked() -> Net:
        model = net()
        model.head.register_forward_hook(lambda module, given, output: output * 2)
        model.blocks[0].register_forward_pre_hook(lambda module, given: (given[0] + 1,))
        model.blocks[1].register_full_backward_hook(lambda module, given, output: (given[0] * 2,))
        return model

    model = hooked()
    assert compare(model, hooked(), X).passed
    # A hook is a part of its module: without it, that module is wrong.
    wrong = hooked()
    wrong.head._forward_hooks.clear()
    assert culprit(compare_models(model, wrong, X)) == "head"
    with torch.no_grad():
        expected = net()(X)
        assert not torch.equal(model(X), expected)


@BOTH
def test_a_forward_that_is_replaced_on_the_instance(compare: Compare) -> None:
    candidate = net()
    usual = candidate.head.forward
    candidate.head.forward = lambda x: usual(x)  # type: ignore[method-assign]
    assert compare(net(), candidate, X).passed
    candidate.head.forward = lambda x: usual(x) * 1.001  # type: ignore[method-assign]
    assert culprit(compare(net(), candidate, X, explain=False)).startswith("head")
    assert "forward" in vars(candidate.head)


def test_lazy_modules_are_refused_until_they_have_weights() -> None:
    model = nn.Sequential(nn.LazyLinear(8))
    with pytest.raises(CaptureError, match="has lazy layers"):
        compare_models(model, copy.deepcopy(model), X)
    model(X)
    for compare in (compare_models, compare_gradients):
        assert compare(model, copy.deepcopy(model), X).passed


@BOTH
def test_arguments_that_forward_does_not_name(compare: Compare) -> None:
    class Any_(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(32, 32)

        def forward(self, *args: Tensor, **kwargs: Tensor) -> Tensor:
            return self.fc(args[0]) + kwargs["more"]  # type: ignore[no-any-return]

    model = Any_()
    assert compare(model, honest(model), (X,), {"more": X.cos()}).passed


@BOTH
def test_inputs_of_a_subclass_of_tensor_and_a_parameter_as_output(compare: Compare) -> None:
    class Marked(Tensor):
        pass

    class Giving(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.scale = nn.Linear(32, 32), nn.Parameter(torch.ones(32))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.fc(x), self.scale

    model = Giving()
    assert compare(model, honest(model), X.as_subclass(Marked)).passed


@BOTH
def test_a_module_that_calls_itself(compare: Compare) -> None:
    class Recursive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(32, 32)

        def forward(self, x: Tensor, depth: int = 2) -> Tensor:
            x = self.fc(x).tanh()
            return x if depth == 0 else self(x, depth - 1)  # type: ignore[no-any-return]

    model = Recursive()
    report = compare(model, honest(model), X)
    assert report.passed
    wrong = copy.deepcopy(model)
    off(wrong.fc)
    assert culprit(compare(model, wrong, X, explain=False)).startswith("fc")


@BOTH
def test_wrappers_that_keep_the_model_in_module_are_mapped(compare: Compare) -> None:
    candidate = nn.DataParallel(net())
    names = {name: f"module.{name}" for name in ("blocks", "head")}
    report = compare(net(), candidate, X, map=names)
    assert report.passed and layer(report, "blocks.0.up" if compare is compare_models else "head.weight").own


@BOTH
def test_a_parameter_or_a_buffer_that_is_an_expanded_view(compare: Compare) -> None:
    class Expanded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(32, 32)
            self.register_buffer("ones", torch.ones(1).expand(32))

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x.expand(4, 7, 32) * self.ones)  # type: ignore[no-any-return, operator]

    model = Expanded()
    assert compare(model, honest(model), X[:1].expand(4, 7, 32)).passed
