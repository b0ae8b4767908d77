"""Checkpoints of both kinds: they change no value, their layers are compared, and faults in them are blamed rightly."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from torchport import compare_gradients, compare_models
from torchport.runs.run import Run
from torchport.trace.reading import Trace

from .models import Block, Reversed, Tied, WrongInput, WrongWeight, X, honest, instead
from .test_forward import culprit, failed, layer, left_out

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")]
BOTH_KINDS = pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "not reentrant"])
SIDES = pytest.mark.parametrize("where", ["reference", "candidate", "both"])


class Checkpointed(nn.Module):
    """Three blocks, the last one called twice, each call in a checkpoint; without one if `reentrant` is None."""

    def __init__(self, reentrant: bool | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(32) for _ in range(3))
        self.head, self.reentrant = nn.Linear(32, 16), reentrant

    def forward(self, x: Tensor) -> Tensor:
        for block in (*self.blocks, self.blocks[2]):
            plain = self.reentrant is None
            x = block(x) if plain else checkpoint(block, x, use_reentrant=self.reentrant)
        return self.head(x)  # type: ignore[no-any-return]


def model(reentrant: bool | None = None) -> Checkpointed:
    torch.manual_seed(0)
    return Checkpointed(reentrant)


def as_candidate(reentrant: bool, kind: type[nn.Linear], path: str) -> nn.Module:
    candidate = model(reentrant)
    instead(candidate, path, kind)
    return candidate


@pytest.mark.slow
@BOTH_KINDS
@SIDES
def test_a_checkpoint_is_compared_at_every_layer(reentrant: bool, where: str) -> None:
    reference = model(reentrant if where != "candidate" else None)
    candidate = honest(model(reentrant if where != "reference" else None))
    report = compare_models(reference, candidate, X)
    assert report.passed and not left_out(report)
    plain = compare_gradients(model(), honest(model()), X)
    report = compare_gradients(reference, candidate, X)
    assert report.passed and not left_out(report) and report.compared == plain.compared
    assert {one.name for one in report.layers} == {one.name for one in plain.layers}


@BOTH_KINDS
def test_the_gradients_are_those_of_autograd(reentrant: bool, tmp_path: Path) -> None:
    compare_gradients(model(reentrant), model(reentrant), X, loss=lambda y: y.square().mean(), out=tmp_path)
    expected, x = model(), X.clone().requires_grad_()
    expected(x).square().mean().backward()
    run = Run.open(tmp_path)
    assert run.golden is not None and run.chained is not None
    for file in (run.golden, run.chained):
        with Trace(file) as trace:
            for name, parameter in expected.named_parameters():
                torch.testing.assert_close(trace.get(name), parameter.grad, rtol=1e-6, atol=1e-7)
            torch.testing.assert_close(trace.get("Checkpointed<0"), x.grad, rtol=1e-6, atol=1e-7)


@BOTH_KINDS
@pytest.mark.parametrize("kind", [WrongInput, WrongWeight])
@pytest.mark.parametrize("path", ["blocks.1.up", "blocks.2.down", "head"])
def test_a_wrong_backward_in_a_checkpoint_is_blamed_on_its_layer(
    reentrant: bool, kind: type[nn.Linear], path: str
) -> None:
    report = compare_gradients(model(reentrant), as_candidate(reentrant, kind, path), X, explain=False)
    assert culprit(report) in (path, f"{path}#1", f"{path}.weight")
    assert set(failed(report)) <= {path, f"{path}#1", f"{path}.weight"}


@BOTH_KINDS
@SIDES
def test_a_wrong_forward_in_a_checkpoint_does_not_spoil_its_neighbours(reentrant: bool, where: str) -> None:
    """What is computed again in the backward pass is golden at every border, as it was in the forward pass."""

    class Off(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 1.01

    reference = model(reentrant if where != "candidate" else None)
    candidate = model(reentrant if where != "reference" else None)
    instead(candidate, "blocks.1.up", Off)
    report = compare_gradients(reference, candidate, X, explain=False)
    assert culprit(report).startswith("blocks.1.up")
    assert set(failed(report)) <= {"blocks.1.up", "blocks.1.up.weight", "blocks.1.up.bias"}


@BOTH_KINDS
def test_gradients_that_were_there_stay(reentrant: bool) -> None:
    reference, candidate = model(reentrant), model(reentrant)
    for one in (reference, candidate):
        for parameter in one.parameters():
            parameter.grad = torch.full_like(parameter, 7.0)
    assert compare_gradients(reference, candidate, X).passed
    for one in (reference, candidate):
        assert all(p.grad is not None and bool((p.grad == 7).all()) for p in one.parameters())


def test_a_reentrant_checkpoint_whose_input_wants_no_gradient_loses_its_parameters_gradients() -> None:
    class Embedded(Tied):
        def forward(self, ids: Tensor) -> dict[str, Tensor]:
            hidden = checkpoint(lambda one: self.mid(self.embed(one)).tanh(), ids, use_reentrant=True)
            return {"logits": self.head(hidden)}

    reference = Tied()
    candidate = Embedded()
    candidate.load_state_dict(reference.state_dict())
    ids = torch.arange(12).reshape(2, 6)
    assert compare_models(reference, candidate, (ids,)).passed
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad"):
        report = compare_gradients(reference, candidate, (ids,), explain=False)
    assert not layer(report, "mid.weight").passed


@BOTH_KINDS
def test_several_layers_in_one_checkpoint_and_checkpoints_in_checkpoints(reentrant: bool) -> None:
    class Nested(Checkpointed):
        def forward(self, x: Tensor) -> Tensor:
            def inner(y: Tensor) -> Tensor:
                return self.blocks[1](self.blocks[2](y * 2)).relu_()  # type: ignore[no-any-return]

            def outer(y: Tensor) -> Tensor:
                y = self.blocks[0](y)
                if self.reentrant is None:
                    return inner(y)
                return checkpoint(inner, y, use_reentrant=self.reentrant)  # type: ignore[no-any-return]

            plain = self.reentrant is None
            return self.head(outer(x) if plain else checkpoint(outer, x, use_reentrant=self.reentrant))  # type: ignore[no-any-return]

    reference = Nested()
    candidate = Nested(reentrant)
    candidate.load_state_dict(reference.state_dict())
    instead(candidate, "blocks.2.up", Reversed)
    report = compare_gradients(reference, candidate, X)
    assert report.passed and not left_out(report)
    wrong = copy.deepcopy(candidate)
    instead(wrong, "blocks.2.up", WrongWeight)
    assert culprit(compare_gradients(reference, wrong, X, explain=False)) == "blocks.2.up.weight"


@pytest.mark.slow
def test_a_language_model_with_gradient_checkpointing() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        use_cache=False,
    )
    reference = LlamaForCausalLM(config).train()
    candidate = copy.deepcopy(reference)
    candidate.gradient_checkpointing_enable({"use_reentrant": False})
    ids = torch.arange(12).reshape(2, 6)
    report = compare_gradients(reference, candidate, (), {"input_ids": ids})
    assert report.passed and not [name for name in left_out(report) if "weight" in name]


class Around(nn.Module):
    """Code of its own in a checkpoint, around layers: a weight that is used elsewhere, and an activation in place."""

    def __init__(self, reentrant: bool | None) -> None:
        super().__init__()
        self.fc, self.mid, self.act = nn.Linear(32, 32), nn.Linear(32, 32), nn.ReLU(inplace=True)
        self.out, self.reentrant = nn.Linear(32, 8), reentrant

    def forward(self, x: Tensor) -> Tensor:
        def inner(y: Tensor) -> Tensor:
            y = self.mid(nn.functional.linear(y.tanh(), self.fc.weight) * 2)
            self.act(y)
            return y + self.fc(y)  # type: ignore[no-any-return]

        plain = self.reentrant is None
        return self.out(inner(x) if plain else checkpoint(inner, x, use_reentrant=self.reentrant))  # type: ignore[no-any-return]


@BOTH_KINDS
@SIDES
def test_code_around_layers_in_a_checkpoint_has_gradients_in_float64(reentrant: bool, where: str) -> None:
    torch.manual_seed(0)
    reference = Around(reentrant if where != "candidate" else None)
    candidate = Around(reentrant if where != "reference" else None)
    candidate.load_state_dict(reference.state_dict())
    report = compare_gradients(reference, honest(candidate), X)
    assert report.passed and not left_out(report)
    compared = [one.own for one in report.layers if one.own is not None]
    assert len(compared) > 8 and all(own.noise is not None for own in compared)
    wrong = copy.deepcopy(candidate)
    instead(wrong, "mid", WrongWeight)
    assert failed(compare_gradients(reference, wrong, X, explain=False)) == ["mid.weight"]


class Convolved(nn.Module):
    def __init__(self, reentrant: bool, folded: bool = False) -> None:
        super().__init__()
        self.first, self.conv, self.reentrant = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3), reentrant
        self.norm = nn.Identity() if folded else nn.BatchNorm2d(8)

    def forward(self, x: Tensor) -> Tensor:
        hidden = checkpoint(
            lambda y: self.norm(self.conv(y.sin())), self.first(x), use_reentrant=self.reentrant
        )
        return hidden.tanh()  # type: ignore[no-any-return]


@BOTH_KINDS
def test_layers_that_are_computed_as_one_in_a_checkpoint(reentrant: bool) -> None:
    torch.manual_seed(0)
    reference = Convolved(reentrant).eval()
    with torch.no_grad():
        reference.norm.running_mean += torch.randn(8)  # type: ignore[operator, union-attr]
        reference.norm.weight *= 1.5  # type: ignore[operator, union-attr]
    candidate = Convolved(reentrant, folded=True).eval()
    candidate.first.load_state_dict(reference.first.state_dict())
    candidate.conv = nn.utils.fuse_conv_bn_eval(reference.conv, reference.norm)
    images = torch.randn(2, 3, 12, 12)
    report = compare_gradients(reference, candidate, images)
    assert report.passed and layer(report, "conv").own is not None
    assert "as one" in left_out(report)["conv.weight"]


def test_a_layer_that_a_candidate_calls_without_recording_gradients_is_found() -> None:
    class Unrecorded(Checkpointed):
        def forward(self, x: Tensor) -> Tensor:
            y = self.blocks[0](x)
            with torch.no_grad():
                z = self.blocks[1](x)
            return self.head(self.blocks[2](y + z))  # type: ignore[no-any-return]

    class Recorded(Checkpointed):
        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.blocks[2](self.blocks[0](x) + self.blocks[1](x)))  # type: ignore[no-any-return]

    reference, candidate = Recorded(), Unrecorded()
    candidate.load_state_dict(reference.state_dict())
    assert compare_gradients(candidate, copy.deepcopy(candidate), X).passed
    report = compare_gradients(reference, candidate, X, explain=False)
    assert not report.passed
    lost = [name for name in failed(report) if name.startswith("blocks.1.")]
    assert "blocks.1.up.weight" in lost and not any(name.startswith("blocks.0") for name in failed(report))


def test_a_layer_that_writes_to_its_parameters_without_recording_gradients_is_run_as_it_is() -> None:
    class Average(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean = nn.Parameter(torch.zeros(32))

        def forward(self, x: Tensor) -> Tensor:
            self.mean.mul_(0.9).add_(x.mean((0, 1)), alpha=0.1)
            return x - self.mean

    class Following(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.average, self.fc = Average(), nn.Linear(32, 32)

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                x = self.average(x)
            return self.fc(x)  # type: ignore[no-any-return]

    model = Following().train()
    assert compare_gradients(model, copy.deepcopy(model), X).passed
    assert not model.average.mean.any()
