"""A candidate that fails is explained: the operation, the candidate's line that stands for it, and the cause."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport import compare_gradients, compare_models
from torchport.candidates import causes
from torchport.parity.result import Divergence
from torchport.runs.report import Report

from . import rewrites
from .models import Looped, Renamed, WrongInput, WrongWeight, instead, net
from .rewrites import (
    Attention,
    Difference,
    FusedWithNoise,
    FusedWithOtherScale,
    HonestFused,
    HonestMlp,
    LinearByHand,
    LinearTransposed,
    LinearWithoutBias,
    Mlp,
    NormByHand,
    OtherAxis,
    Recurring,
    Root,
    ScaledMlp,
    Swapped,
    TanhByHandMlp,
    TanhMlp,
    WithoutResidual,
    WritesInPlace,
    WrongSecond,
)

pytestmark = pytest.mark.slow

X = torch.randn(4, 7, 32, generator=torch.Generator().manual_seed(3))
Compare = Callable[..., Report]
BOTH = pytest.mark.parametrize("compare", [compare_models, compare_gradients], ids=["values", "gradients"])


@dataclass(frozen=True)
class Pair:
    """A reference and a rewrite of it, with the same weights."""

    reference: nn.Module
    candidate: nn.Module
    inputs: tuple[Tensor, ...] = (X,)


def pair(reference: nn.Module, candidate: nn.Module, *inputs: Tensor) -> Pair:
    candidate.load_state_dict(reference.state_dict())
    return Pair(reference.eval(), candidate.eval(), inputs or (X,))


def culprit(report: Report) -> Divergence:
    assert report.status == "fail" and report.first_divergence is not None
    return report.first_divergence


def explained(compare: Compare, subject: Pair, **options: Any) -> Divergence:
    return culprit(compare(subject.reference, subject.candidate, subject.inputs, **options))


def code_at(source: str | None) -> str:
    """The line of code that a place is."""
    assert source is not None
    file, _, line = source.rpartition(":")
    return Path(file).read_text().splitlines()[int(line) - 1].strip()


# Honest rewrites


@BOTH
@pytest.mark.parametrize(
    "subject",
    [
        pair(Mlp(), HonestMlp()),
        pair(nn.LayerNorm(32), NormByHand(32)),
        pair(nn.Linear(32, 32), LinearByHand(32, 32)),
        pair(Attention(), HonestFused()),
    ],
    ids=lambda subject: type(subject.candidate).__name__,
)
def test_an_honest_rewrite_passes(compare: Compare, subject: Pair) -> None:
    report = compare(subject.reference, subject.candidate, subject.inputs)
    assert report.passed, report.first_divergence


# Rewrites that are wrong in a known way


@dataclass(frozen=True)
class Wrong:
    subject: Pair
    op: str
    line: str
    """The candidate's code that stands for the operation or, if there is none, the reference's."""
    kind: str
    text: str = ""


def other_eps() -> nn.Module:
    return NormByHand(32, eps=1e-4)


WRONG = {
    "gelu_tanh": Wrong(
        pair(Mlp(), TanhMlp()),
        "aten.gelu.default",
        'hidden = F.gelu(self.up(self.norm(x)), approximate="tanh")',
        "gelu_tanh",
    ),
    "gelu_tanh_by_hand": Wrong(
        pair(Mlp(), TanhByHandMlp()),
        "aten.gelu.default",
        "hidden = 0.5 * z * (1 + torch.tanh(inner))",
        "gelu_tanh",
    ),
    "eps": Wrong(
        pair(nn.LayerNorm(32), other_eps()),
        "aten.layer_norm.default",
        "return centred * scale * self.weight + self.bias",
        "eps",
        "eps is 0.0001 where the model has 1e-05",
    ),
    "bias": Wrong(
        pair(nn.Linear(32, 32), LinearWithoutBias(32, 32)),
        "aten.linear.default",
        "return x @ self.weight.T",
        "bias",
        "bias is not applied",
    ),
    "transposed": Wrong(
        pair(nn.Linear(32, 32), LinearTransposed(32, 32)),
        "aten.linear.default",
        "return x @ self.weight + self.bias",
        "transposed_weight",
    ),
    "scale": Wrong(
        pair(Mlp(), ScaledMlp()),
        "aten.mul.Tensor",
        "y = self.down(hidden) * 0.6",
        "scale",
        "other is 0.6 where the model has 0.5",
    ),
    "axis": Wrong(
        pair(Attention(), OtherAxis()),
        "aten.softmax.int",
        "weights = scores.softmax(-2)",
        "axis",
    ),
    "residual": Wrong(
        pair(Mlp(), WithoutResidual()),
        "aten.add.Tensor",
        "return self.down(hidden) * 0.5",
        "dropped_operand",
    ),
    "second_output": Wrong(
        pair(Root(Difference()), Root(WrongSecond()), X, X.cos()),
        "aten.tanh.default",
        "return (x - other) * scale, x.sigmoid()",
        "activation",
        "sigmoid where the model has tanh",
    ),
    "called_twice": Wrong(
        pair(Recurring(nn.Linear(32, 32)), Recurring(LinearTransposed(32, 32))),
        "aten.linear.default",
        "return x @ self.weight + self.bias",
        "transposed_weight",
    ),
    "in_place": Wrong(
        pair(WritesInPlace(0.1), WritesInPlace(0.2)),
        "aten.leaky_relu.default",
        "return F.leaky_relu_(y, self.slope) * self.calls",
        "number",
        "negative_slope is 0.2 where the model has 0.1",
    ),
}


@BOTH
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_the_operation_its_line_and_the_cause_are_named(compare: Compare, wrong: Wrong) -> None:
    found = explained(compare, wrong.subject)
    assert found.operation is not None and found.operation.op == wrong.op
    assert code_at(found.operation.source) == wrong.line
    assert found.suggestions[0].kind == wrong.kind and wrong.text in found.suggestions[0].text
    assert found.suggestions[0].explains > 0.99
    assert found.operation.metrics is not None and found.operation.metrics.passed is False


@BOTH
def test_operands_that_are_swapped_are_named_with_their_operation(compare: Compare) -> None:
    found = explained(compare, pair(Root(Difference()), Root(Swapped()), X, X.cos()))
    assert found.operation is not None and found.operation.op == "aten.sub.Tensor"
    assert code_at(found.operation.source) == "return (other - x) * scale, x.tanh()"
    assert {one.kind for one in found.suggestions} <= {"swapped_operands"}


@pytest.mark.parametrize(
    ("kind", "line"),
    [(WrongInput, 'of_x * factor if ctx.wrong == "input"'), (WrongWeight, "of_weight * factor if ctx.wrong")],
)
def test_a_backward_that_does_one_thing_too_many_is_named_with_that(kind: type[nn.Linear], line: str) -> None:
    candidate = net()
    instead(candidate, "blocks.1.up", kind)
    found = culprit(compare_gradients(net(), candidate, X))
    assert found.operation is not None and found.operation.op == "aten.mul.Tensor"
    assert "in addition" in found.operation.reason and code_at(found.operation.source).startswith(line)


# Weights


def neighbours(model: Any) -> None:
    model.layers[1].up.weight.data = model.layers[1].down.weight.data.clone()


def transposed(model: Any) -> None:
    model.layers[1].up.weight.data = model.layers[1].up.weight.data.T.contiguous()


@BOTH
@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (neighbours, "blocks.1.up.weight is blocks.1.down.weight"),
        (transposed, "blocks.1.up.weight is transposed (axes 0 and 1)"),
    ],
)
def test_a_weight_is_named_as_the_reference_calls_it(
    compare: Compare, spoil: Callable[[Any], None], text: str
) -> None:
    candidate = Renamed(net())
    spoil(candidate)
    names = {"blocks": "layers", "head": "out"}
    found = explained(compare, Pair(net(), candidate), map=names)
    assert found.operation is not None and found.operation.op == "aten.linear.default"
    assert [one.text for one in found.suggestions] == [text]


# What is computed otherwise


@BOTH
def test_a_fused_rewrite_gets_the_operation_of_the_hypothesis_that_explains_it(compare: Compare) -> None:
    found = explained(compare, pair(Attention(), FusedWithOtherScale()))
    assert found.operation is not None and found.operation.op == "aten.mul.Tensor"
    assert found.suggestions[0].text.startswith("other is 0.2 where the model has 0.35355")


@BOTH
def test_a_fused_rewrite_that_nothing_explains_gets_no_operation(compare: Compare) -> None:
    found = explained(compare, pair(Attention(), FusedWithNoise()))
    assert found.operation is None and found.suggestions == ()


def test_values_that_come_by_another_way_and_are_right_are_not_blamed() -> None:
    found = explained(compare_models, pair(Attention(), rewrites.Scored()))
    assert found.operation is not None
    assert code_at(found.operation.source) == "return self.joined(weights.square() @ v)"


# Functions, compiled code, modes, dtypes


def test_a_function_is_traced_as_a_whole() -> None:
    model = Mlp().eval()

    def rewritten(x: Tensor) -> Tensor:
        hidden = nn.functional.gelu(model.up(model.norm(x)), approximate="tanh")
        return x + model.down(hidden) * 0.5

    found = culprit(compare_models(model, rewritten, X))
    assert found.layer == "Mlp" and found.operation is not None and found.operation.op == "aten.gelu.default"
    assert code_at(found.operation.source).startswith("hidden = nn.functional.gelu(")
    assert found.suggestions[0].kind == "gelu_tanh"


def test_compiled_code_is_explained_by_what_it_computes() -> None:
    candidate = net()
    candidate.blocks[1].norm.eps = 2e-5  # type: ignore[union-attr]
    for closed in (torch.compile(candidate, backend="eager"), torch.jit.script(candidate)):
        found = culprit(compare_models(net(), closed, X))
        assert found.operation is not None and found.operation.op == "aten.layer_norm.default"
        assert found.suggestions[0].text == "eps is 2e-05 where the model has 1e-05"
        assert found.snippet is None


def test_code_that_cannot_be_traced_leaves_the_hypotheses() -> None:
    class Branching(nn.LayerNorm):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x + 1 if x.sum().item() > 1e9 else x)

    found = culprit(compare_models(nn.LayerNorm(32), Branching(32, eps=1e-3), X))
    assert found.operation is not None and found.operation.reason == "it is the only operation of the layer"
    assert found.suggestions[0].kind == "eps"


@BOTH
def test_a_layer_in_training_mode_is_explained_and_keeps_its_statistics(compare: Compare) -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(7)).train()
    candidate = copy.deepcopy(model)
    candidate[1].eps = 1e-2  # type: ignore[assignment]
    before = copy.deepcopy(candidate.state_dict())
    found = culprit(compare(model, candidate, X))
    assert found.suggestions[0].text == "eps is 0.01 where the model has 1e-05"
    assert candidate.training
    assert all(torch.equal(value, before[name]) for name, value in candidate.state_dict().items())


@BOTH
def test_a_coarser_candidate_is_explained_in_its_dtype(compare: Compare) -> None:
    candidate = net()
    candidate.blocks[1].norm.eps = 0.1  # type: ignore[union-attr]
    found = culprit(compare(net(), candidate.bfloat16(), X))
    assert found.operation is not None and found.operation.op == "aten.layer_norm.default"
    assert found.suggestions[0].text == "eps is 0.1 where the model has 1e-05"


def test_a_gradient_that_does_not_arrive_is_not_blamed_on_an_operation() -> None:
    class Cut(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).detach()

    candidate = net()
    instead(candidate, "blocks.1.up", Cut)
    found = culprit(compare_gradients(net(), candidate, X))
    assert found.reason == "no gradient arrives" and found.operation is None and found.suggestions == ()


def test_of_a_parameter_that_several_calls_use_the_call_that_is_wrong_is_explained() -> None:
    class Late(nn.Linear):
        """Right the first time it is called."""

        called = 0

        def forward(self, x: Tensor) -> Tensor:
            self.called += 1
            y = super().forward(x)
            return y if self.called == 1 else y * 1.5

    reference, candidate = Recurring(nn.Linear(32, 32)), Recurring(Late(32, 32))
    candidate.load_state_dict(reference.state_dict())
    found = culprit(compare_gradients(reference, candidate, X))
    assert found.layer == "layer#1" or found.layer.startswith("layer.")


# The verdict is not touched


def test_an_explanation_can_be_left_out() -> None:
    found = explained(compare_models, WRONG["eps"].subject, explain=False)
    assert found.operation is None and found.suggestions == ()


def test_an_explanation_that_fails_leaves_the_report_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = WRONG["eps"].subject
    without = compare_models(subject.reference, subject.candidate, subject.inputs, explain=False)

    def fails(*args: Any) -> Any:
        raise ZeroDivisionError("of an explanation")

    monkeypatch.setattr(causes, "suggest", fails)
    report = compare_models(subject.reference, subject.candidate, subject.inputs)
    assert report.first_divergence == without.first_divergence and report.layers == without.layers


@BOTH
def test_models_come_back_as_they_were(compare: Compare) -> None:
    model, candidate = Looped(net()), Looped(net())
    candidate.blocks[0].scale = 1.5  # type: ignore[union-attr]
    before = [dict(vars(module)) for one in (model, candidate) for module in one.modules()]
    threads = torch.get_num_threads()
    assert culprit(compare(model, candidate, X)).operation is not None
    after = [dict(vars(module)) for one in (model, candidate) for module in one.modules()]
    assert [one.keys() for one in before] == [one.keys() for one in after]
    assert all(p.grad is None for one in (model, candidate) for p in one.parameters())
    assert torch.get_num_threads() == threads
    assert not any(
        m._forward_hooks or m._forward_pre_hooks for one in (model, candidate) for m in one.modules()
    )
