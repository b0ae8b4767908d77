"""Gradients: honest candidates pass, and the culprit is the first on the way back whose own gradient is wrong."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport import compare_gradients
from torchport.errors import CaptureError, RunError, UsageError
from torchport.runs.report import Report
from torchport.runs.run import Run
from torchport.trace.reading import Trace

from .models import (
    Detached,
    InPlace,
    Looped,
    Renamed,
    Tied,
    Twice,
    WrongInput,
    WrongWeight,
    X,
    honest,
    instead,
    net,
)
from .test_forward import culprit, failed, layer, left_out

pytestmark = pytest.mark.slow

IDS = torch.arange(24).reshape(2, 12)


def names(report: Report) -> list[str]:
    return [one.name for one in report.layers]


# Honest candidates


def test_layers_are_parameters_and_inputs_in_the_order_of_the_backward_pass() -> None:
    report = compare_gradients(net(), net(), X)
    assert report.passed and report.model == "Net_gradients" and report.target == "torch"
    assert names(report)[:3] == ["head.weight", "head.bias", "head"] and names(report)[-1] == "Net"
    assert names(report).index("blocks.1.norm") < names(report).index("blocks.0.down.weight")
    assert {name for name, _ in net().named_parameters()} < set(names(report))
    weight = layer(report, "blocks.0.up.weight")
    assert weight.type == "gradient of Linear.weight" and weight.parent == "blocks.0.up"
    assert layer(report, "blocks.0.act").type == "gradient of GELU.input"


@pytest.mark.parametrize("seed", range(5))
def test_the_same_sums_in_another_order_pass(seed: int) -> None:
    torch.manual_seed(seed)
    report = compare_gradients(net(), honest(net()), torch.randn(4, 7, 32))
    assert report.passed and report.rule == "noise floor x 4"
    own = layer(report, "blocks.0.up.weight").own
    assert own is not None and own.max_abs > 0 and own.noise is not None and own.noise.floor_rms > 0


def test_the_gradients_are_those_of_autograd(tmp_path: Path) -> None:
    def loss(y: Tensor) -> Tensor:
        return y.square().mean()

    model, x = net(), X.clone().requires_grad_()
    compare_gradients(model, net(), X, loss=loss, out=tmp_path)
    loss(model(x)).backward()
    run = Run.open(tmp_path)
    assert run.golden is not None and run.chained is not None
    for file in (run.golden, run.chained):
        with Trace(file) as trace:
            for name, parameter in model.named_parameters():
                torch.testing.assert_close(trace.get(name), parameter.grad, rtol=0, atol=0)
            torch.testing.assert_close(trace.get("Net<0"), x.grad, rtol=0, atol=0)


@pytest.mark.parametrize("kind", [InPlace, Twice])
def test_in_place_modules_and_a_module_called_twice_pass(kind: type[nn.Module]) -> None:
    model = kind()
    report = compare_gradients(model, honest(model), X)
    assert report.passed, report.first_divergence


def test_a_gradient_that_is_zero_but_for_rounding_passes() -> None:
    """The bias of the keys does nothing in attention, so its gradient is noise."""

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            return (self.q(x) @ self.k(x).mT).softmax(-1) @ self.v(x)

    model = Attention()
    report = compare_gradients(model, honest(model), torch.randn(4, 7, 32))
    own = layer(report, "k.bias").own
    assert report.passed and own is not None and own.golden_max < 1e-4


def test_batch_norm_in_training_mode_passes_and_keeps_its_statistics() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(7), nn.ReLU(inplace=True)).train()
    before = copy.deepcopy(model.state_dict())
    report = compare_gradients(model, honest(model), X)
    assert report.passed, report.first_divergence
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_further_inputs_and_outputs_of_an_inner_layer_do_no_harm() -> None:
    """Attention that takes a mask and gives its weights, where the reference has None for both."""

    class Attention(nn.Module):
        def __init__(self, with_weights: bool) -> None:
            super().__init__()
            self.q, self.with_weights = nn.Linear(32, 32), with_weights

        def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor | None, Tensor]:
            scores = self.q(x) @ x.mT
            weights = (scores if mask is None else scores + mask).softmax(-1)
            return (weights if self.with_weights else None), weights @ x

    class Root(nn.Module):
        def __init__(self, with_weights: bool) -> None:
            super().__init__()
            self.attention, self.out = Attention(with_weights), nn.Linear(32, 32)

        def forward(self, x: Tensor) -> Tensor:
            mask = torch.zeros(7, 7) if self.attention.with_weights else None
            return self.out(self.attention(mask=mask, x=x)[1])

    model, candidate = Root(False), Root(True)
    candidate.load_state_dict(model.state_dict())
    report = compare_gradients(model, honest(candidate), torch.randn(4, 7, 32))
    assert report.passed, report.first_divergence
    assert layer(report, "attention").own is not None


def test_recurrent_layers_pass() -> None:
    model = nn.LSTM(32, 16, num_layers=2, bidirectional=True, batch_first=True)
    report = compare_gradients(model, copy.deepcopy(model), X)
    assert report.passed and len(report.layers) == 17


# Faults


@pytest.mark.parametrize(
    ("kind", "where"),
    [(WrongInput, "blocks.1.up"), (WrongWeight, "blocks.1.up.weight")],
    ids=["input", "weight"],
)
def test_a_wrong_backward_is_laid_to_the_layer_that_has_it(kind: type[nn.Linear], where: str) -> None:
    candidate = honest(net())
    instead(candidate, "blocks.1.up", kind)
    report = compare_gradients(net(), candidate, X)
    assert culprit(report) == where and failed(report) == [where]
    assert report.first_divergence is not None and report.first_divergence.kind == "own"


def test_the_first_fault_on_the_way_back_is_the_culprit() -> None:
    candidate = net()
    instead(candidate, "blocks.0.down", WrongInput)
    instead(candidate, "blocks.1.up", WrongInput)
    report = compare_gradients(net(), candidate, X)
    assert culprit(report) == "blocks.1.up" and failed(report) == ["blocks.1.up", "blocks.0.down"]


def test_a_wrong_forward_shows_in_the_gradients_of_the_layer_that_has_it() -> None:
    candidate = net()
    candidate.blocks[1].norm.eps = 1e-3  # type: ignore[union-attr]
    report = compare_gradients(net(), candidate, X)
    assert {name.partition(".norm")[0] for name in failed(report)} == {"blocks.1"}
    assert culprit(report).startswith("blocks.1.norm")


def test_a_fault_between_the_calls_is_the_callers() -> None:
    candidate = net()
    candidate.blocks[1].residual = False  # type: ignore[union-attr]
    report = compare_gradients(net(), candidate, X)
    assert culprit(report) == "blocks.1" and failed(report) == ["blocks.1"]


# Missing gradients


def test_a_detach_between_two_calls_is_the_callers_and_named() -> None:
    report = compare_gradients(Looped(net()), Detached(net()), X)
    assert culprit(report) == "Looped" and failed(report) == ["Looped"]
    assert report.first_divergence is not None
    assert report.first_divergence.what == "gradient at the output of blocks.0"
    assert report.first_divergence.reason == "no gradient arrives"
    chained = layer(report, "blocks.0.up.weight").chained
    assert chained is not None and chained.incomparable == "no gradient arrives"


def test_a_detach_that_is_missing_is_named() -> None:
    report = compare_gradients(Detached(net()), Looped(net()), X)
    assert not report.passed and report.first_divergence is not None
    assert report.first_divergence.reason == "the candidate has a gradient where the reference has none"
    assert "blocks.0.up.weight" in failed(report) and "head.weight" not in failed(report)


def test_a_detach_inside_a_layer_is_that_layers() -> None:
    class Cut(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).detach()

    candidate = net()
    instead(candidate, "blocks.1.up", Cut)
    report = compare_gradients(net(), candidate, X)
    assert failed(report) == ["blocks.1.up.weight", "blocks.1.up.bias", "blocks.1.up"]
    assert layer(report, "blocks.1.up.weight").reason == "gradient of weight: no gradient arrives"


def test_a_parameter_that_is_frozen_on_one_side_is_a_difference() -> None:
    candidate = net()
    candidate.head.bias.requires_grad_(False)
    assert failed(compare_gradients(net(), candidate, X)) == ["head.bias"]
    reference = net()
    reference.head.bias.requires_grad_(False)
    report = compare_gradients(reference, net(), X)
    assert failed(report) == ["head.bias"]
    report = compare_gradients(reference, candidate, X)
    assert report.passed
    assert left_out(report) == {"head.bias": "not compared: no gradient flows to it in either"}


# Names


def test_a_tied_parameter_is_compared_once_under_one_name() -> None:
    model = Tied()
    report = compare_gradients(model, copy.deepcopy(model), IDS)
    assert report.passed and "embed.weight" in names(report) and "head.weight" not in names(report)
    candidate = copy.deepcopy(model)
    candidate.head.weight = nn.Parameter(model.embed.weight.detach().clone())
    report = compare_gradients(model, candidate, IDS)
    assert culprit(report) == "embed.weight" and failed(report) == ["embed.weight"]


def test_a_model_of_token_ids_has_parameter_gradients_only() -> None:
    report = compare_gradients(Tied(), Tied(), IDS)
    assert not report.passed
    torch.manual_seed(1)
    model = Tied()
    report = compare_gradients(model, copy.deepcopy(model), IDS)
    assert report.passed and layer(report, "embed").own is None


def test_other_names_are_mapped_and_missing_ones_named() -> None:
    candidate = Renamed(net())
    report = compare_gradients(net(), candidate, X, map={"blocks": "layers", "head": "out"})
    assert report.passed and set(left_out(report)) == {"blocks"}
    report = compare_gradients(net(), candidate, X, map={"blocks": "layers"})
    assert report.passed
    reasons = {"head": "module", "head.weight": "parameter", "head.bias": "parameter"}
    for name, what in reasons.items():
        assert left_out(report)[name] == f"not compared: the candidate has no such {what}"


# Compiled code, functions, dtypes


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.slow
def test_a_compiled_module_is_judged_by_its_parameters_and_inputs(backend: str) -> None:
    model = net()
    report = compare_gradients(model, torch.compile(model, backend=backend), X)
    assert report.passed and layer(report, "blocks.0.up.weight").own is not None
    assert set(left_out(report)) == {name for name, _ in model.named_modules() if name}
    candidate = net()
    instead(candidate, "blocks.1.up", WrongWeight)
    report = compare_gradients(model, torch.compile(candidate, backend=backend), X)
    assert failed(report) == ["blocks.1.up.weight"]


def test_a_function_that_uses_the_references_parameters_is_judged_by_them() -> None:
    model = net()
    report = compare_gradients(model, lambda x: model(x), X)
    assert report.passed and layer(report, "head.weight").own is not None
    report = compare_gradients(model, lambda x: model(x) * (1 + 1e-4), X)
    assert not report.passed


def test_float64_has_no_truth() -> None:
    report = compare_gradients(net().double(), honest(net()).double(), X.double())
    assert report.passed and "no float64 truth" in (layer(report, "head.weight").rule or "")


def test_a_coarser_candidate_is_measured_in_its_dtype() -> None:
    x = torch.randn(4, 7, 32)
    report = compare_gradients(net(), net().bfloat16(), x)
    assert report.passed and report.rule == "noise floor x 4 in bfloat16"


def test_nan_never_passes() -> None:
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(32, 32)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x.sqrt())

    class Other(Root):
        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x.sqrt() * torch.where(x > 0, 1.0, torch.nan))

    model, other = Root(), Other()
    other.load_state_dict(model.state_dict())
    x = X.abs()
    x[0, 0, 0] = 0
    report = compare_gradients(model, other, x)
    assert not report.passed


# The loss, and what is left behind


def test_the_loss_is_the_users() -> None:
    seen: list[Any] = []

    def loss(outputs: dict[str, Tensor]) -> Tensor:
        seen.append(outputs["logits"].dtype)
        return outputs["logits"].logsumexp(-1).mean()

    model = Tied()
    assert compare_gradients(model, copy.deepcopy(model), IDS, loss=loss).passed
    assert seen == [torch.float32] * 2
    with pytest.raises(UsageError, match="scalar"):
        compare_gradients(model, model, IDS, loss=lambda outputs: outputs["logits"])


def test_the_same_random_numbers_are_used_every_time() -> None:
    one, other = (compare_gradients(net(), net(), X) for _ in range(2))
    own, again = layer(one, "head.weight").own, layer(other, "head.weight").own
    assert own is not None and again is not None and own.golden_rms == again.golden_rms


def test_gradients_and_models_come_back_as_they_were() -> None:
    model, candidate = net(), honest(net())
    model.head.weight.grad = torch.ones_like(model.head.weight)
    addresses = [p.data_ptr() for m in (model, candidate) for p in m.parameters()]
    x = X.clone()
    with torch.no_grad():
        assert compare_gradients(model, candidate, x).passed
    assert x.grad is None and not x.requires_grad
    assert torch.equal(model.head.weight.grad, torch.ones(16, 32))
    assert all(p.grad is None for p in candidate.parameters())
    assert addresses == [p.data_ptr() for m in (model, candidate) for p in m.parameters()]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in (*model.modules(), *candidate.modules()))


# Errors


def test_a_model_without_gradients_is_a_wrong_usage() -> None:
    class Whole(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.round().int()

    with pytest.raises(UsageError, match="no gradient flows"):
        compare_gradients(Whole(), Whole(), X)


def test_another_structure_of_the_outputs_raises() -> None:
    with pytest.raises(RunError, match="returns tensor at \\[0\\] where a tensor was expected"):
        compare_gradients(net(), lambda x: (net()(x),), X)


def test_randomness_is_refused() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5)).train()
    with pytest.raises(CaptureError, match="TP0204"):
        compare_gradients(model, model, X)


def test_a_backward_that_raises_is_the_candidates() -> None:
    class Refusing(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            raise NotImplementedError("not written yet")

    with pytest.raises(RunError, match="TP0603: .*not written yet"):
        compare_gradients(net(), lambda x: Refusing.apply(net()(x)), X)


def test_a_tensor_that_goes_past_the_borders_gets_its_gradient() -> None:
    """A table is computed once from a parameter, and layers take it from an attribute rather than an argument."""

    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(32, 32)
            self.table = torch.zeros(32)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x) * self.table

    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 32))
            self.layers = nn.ModuleList(Inner() for _ in range(2))

        def forward(self, x: Tensor) -> Tensor:
            table = self.scale.exp().tanh()
            for one in self.layers:
                one.table = table  # type: ignore[assignment]
                x = one(x)
            return x * table

    torch.manual_seed(0)
    model = Root()
    report = compare_gradients(model, honest(model), X)
    assert report.passed, report.first_divergence
    own = layer(report, "scale").own
    assert own is not None and own.noise is not None and own.noise.floor_rms < 1e-3 * own.golden_rms


def test_a_weight_that_is_used_outside_its_module_has_a_float64_truth() -> None:
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(32, 32)

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.linear(self.fc(x).tanh(), self.fc.weight)

    torch.manual_seed(0)
    model, x = Root(), torch.randn(4, 7, 32)
    report = compare_gradients(model, copy.deepcopy(model), x, loss=lambda y: y.square().sum())
    own = layer(report, "fc.weight").own
    assert report.passed and own is not None and own.noise is not None
    golden = torch.autograd.grad(model(x).square().sum(), model.fc.weight)[0]
    wide = copy.deepcopy(model).double()
    truth = torch.autograd.grad(wide(x.double()).square().sum(), wide.fc.weight)[0]
    expected = (golden - truth).square().mean().sqrt().item()
    assert own.noise.floor_rms == pytest.approx(expected, rel=0.5)
