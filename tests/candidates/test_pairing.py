"""What belongs together: tensors by key, calls by what they are given, masks and outputs by what they mean."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport import compare_gradients, compare_models
from torchport.errors import CaptureError
from torchport.runs.report import Report

from .models import X, honest
from .test_forward import culprit, failed, layer, left_out

pytestmark = pytest.mark.slow

Compare = Callable[..., Report]
BOTH = pytest.mark.parametrize("compare", [compare_models, compare_gradients])


def with_weights_of(model: nn.Module, candidate: nn.Module) -> nn.Module:
    candidate.load_state_dict(model.state_dict())
    return honest(candidate)


# Tensors by key


class Parts(nn.Module):
    """Returns a dict of a list and a tensor, in either order."""

    def __init__(self, turned: bool = False):
        super().__init__()
        self.one, self.other, self.turned = nn.Linear(32, 32), nn.Linear(32, 32), turned

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        parts: dict[str, Any] = {"sum": self.one(x) + y, "parts": [self.one(y), self.other(x) * 2]}
        return dict(reversed(parts.items())) if self.turned else parts


class Joined(nn.Module):
    def __init__(self, turned: bool = False):
        super().__init__()
        self.parts, self.turned = Parts(turned), turned

    def forward(self, x: Tensor) -> Tensor:
        found = self.parts(y=x.cos(), x=x) if self.turned else self.parts(x, x.cos())
        return found["sum"] * found["parts"][0] + found["parts"][1]


@BOTH
def test_tensors_of_a_dict_belong_together_by_key(compare: Compare) -> None:
    model = Joined()
    candidate: Any = with_weights_of(model, Joined(turned=True))
    report = compare(model, candidate, X)
    assert report.passed and not left_out(report), report.first_divergence
    assert layer(report, "parts").own is not None
    candidate.parts.other.bias.data[3] += 1e-3
    report = compare_models(model, candidate, X)
    assert failed(report) == ["parts.other"]


@BOTH
def test_a_model_that_returns_a_dict_in_another_order_passes(compare: Compare) -> None:
    model = Parts()
    report = compare(model, with_weights_of(model, Parts(turned=True)), (X, X.cos()))
    assert report.passed, report.first_divergence


@dataclass
class Early:
    hidden: Tensor
    gate: Tensor


@dataclass
class Late:
    gate: Tensor
    hidden: Tensor


@BOTH
def test_fields_of_dataclasses_belong_together_by_name(compare: Compare) -> None:
    class Gated(nn.Module):
        def __init__(self, kind: type) -> None:
            super().__init__()
            self.hidden, self.gate, self.kind = nn.Linear(32, 32), nn.Linear(32, 32), kind

        def forward(self, x: Tensor) -> Any:
            return self.kind(hidden=self.hidden(x), gate=self.gate(x).sigmoid())

    class Root(nn.Module):
        def __init__(self, kind: type) -> None:
            super().__init__()
            self.gated = Gated(kind)

        def forward(self, x: Tensor) -> Tensor:
            found = self.gated(x)
            return found.hidden * found.gate

    model = Root(Early)
    report = compare(model, with_weights_of(model, Root(Late)), X)
    assert report.passed and layer(report, "gated").own is not None, report.first_divergence


# Calls by what they are given


class Shared(nn.Module):
    """A norm that is called for several tensors, in some order, and perhaps once more for nothing."""

    def __init__(self, order: str = "xyz"):
        super().__init__()
        self.norm, self.out, self.order = nn.LayerNorm(32), nn.Linear(32, 32), order

    def forward(self, x: Tensor) -> Tensor:
        given = {"x": x, "y": x.cos() * 3, "z": x[:, :4] - 1, "w": x.flip(0)}
        found = {name: self.norm(given[name]) for name in self.order}
        return self.out(found["x"] * found["y"]) + found["z"].mean()


@BOTH
@pytest.mark.parametrize("order", ["yxz", "zyx", "xzy", "wxyz", "xywz", "zywx"])
def test_calls_of_a_shared_module_are_paired_by_what_they_are_given(compare: Compare, order: str) -> None:
    torch.manual_seed(0)
    model = Shared()
    nn.init.normal_(model.norm.weight)
    candidate: Any = with_weights_of(model, Shared(order))
    report = compare(model, candidate, X)
    assert report.passed and not left_out(report), report.first_divergence
    assert all(layer(report, name).own is not None for name in ("norm", "norm#1", "norm#2"))
    assert ("its other calls" in (layer(report, "norm").reason or "")) == ("w" in order)


def test_a_fault_in_one_of_the_calls_is_named_by_the_references_call() -> None:
    class Wrong(nn.LayerNorm):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return y * 1.001 if x.shape[1] == 4 else y

    model = Shared()
    candidate: Any = Shared("zyx")
    candidate.norm = Wrong(32)
    candidate.load_state_dict(model.state_dict())
    assert failed(compare_models(model, candidate, X)) == ["norm#2"]


def test_calls_that_are_given_something_wrong_are_paired_by_their_order() -> None:
    model = Shared("xyz")

    class Wrong(Shared):
        def forward(self, x: Tensor) -> Tensor:
            found = [self.norm(given) for given in (x, x.cos() * 3 + x, x[:, :4] - 1)]
            return self.out(found[0] * found[1]) + found[2].mean()

    candidate = with_weights_of(model, Wrong())
    report = compare_models(model, candidate, X)
    assert culprit(report) == "Shared" and report.first_divergence is not None
    assert report.first_divergence.what == "input 0 of norm#1"


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(32), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.norm(x))


@BOTH
def test_calls_inside_a_shared_block_follow_the_block(compare: Compare) -> None:
    class Root(nn.Module):
        def __init__(self, turned: bool) -> None:
            super().__init__()
            self.block, self.turned = Block(), turned

        def forward(self, x: Tensor) -> Tensor:
            given = [x, x.cos() * 2]
            found = [self.block(one) for one in (reversed(given) if self.turned else given)]
            first, second = reversed(found) if self.turned else found
            return first * 2 + second.tanh()

    model = Root(False)
    report = compare(model, with_weights_of(model, Root(True)), X)
    assert report.passed and not left_out(report), report.first_divergence


class Places(nn.Module):
    """Two paths: to one module, or to two with the same weights."""

    def __init__(self, is_shared: bool):
        super().__init__()
        self.first = nn.Linear(32, 32)
        self.second = self.first if is_shared else nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh())


def test_one_module_in_two_places_is_compared_with_two() -> None:
    model, candidate = Places(True), Places(False)
    candidate.load_state_dict(model.state_dict())
    report = compare_models(model, honest(candidate), X)
    assert report.passed and [one.name for one in report.layers] == ["first", "first#1", "Places"]
    assert all(one.own is not None for one in report.layers)
    candidate.second.bias.data[1] += 1e-3
    assert failed(compare_models(model, candidate, X)) == ["first#1"]


@BOTH
def test_two_modules_are_compared_with_one_in_two_places(compare: Compare) -> None:
    class Acts(nn.Module):
        def __init__(self, is_shared: bool) -> None:
            super().__init__()
            self.fc, self.first = nn.Linear(32, 32), nn.GELU()
            self.second = self.first if is_shared else nn.GELU()

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.fc(self.first(x)))

    model = Acts(False)
    report = compare(model, with_weights_of(model, Acts(True)), X)
    assert report.passed and not left_out(report), report.first_divergence
    assert layer(report, "second").own is not None


@BOTH
def test_a_list_of_modules_in_another_order_is_mapped(compare: Compare) -> None:
    class Listed(nn.Module):
        def __init__(self, order: tuple[int, ...]) -> None:
            super().__init__()
            self.blocks, self.order = nn.ModuleList(Block() for _ in range(3)), order

        def forward(self, x: Tensor) -> Tensor:
            for index in self.order:
                x = x + self.blocks[index](x)
            return x

    model, candidate = Listed((0, 1, 2)), Listed((2, 0, 1))
    for ours, theirs in zip(model.order, candidate.order, strict=True):
        candidate.blocks[theirs].load_state_dict(model.blocks[ours].state_dict())
    names = {"blocks.0": "blocks.2", "blocks.1": "blocks.0", "blocks.2": "blocks.1"}
    report = compare(model, honest(candidate), X, map=names)
    assert report.passed and set(left_out(report)) <= {"blocks"}, report.first_divergence
    candidate.blocks[0].norm.eps = 1e-3
    report = compare_models(model, candidate, X, map=names)
    assert failed(report) == ["blocks.1.norm"]


# Arguments


@BOTH
def test_positions_names_and_star_arguments_are_the_same_inputs(compare: Compare) -> None:
    class Inner(nn.Module):
        def forward(self, x: Tensor, mask: Tensor, *, scale: Tensor) -> Tensor:
            return x * mask * scale

    class Starred(Inner):
        def forward(self, *args: Tensor, **kwargs: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(*args, **kwargs)

    class Root(nn.Module):
        def __init__(self, inner: nn.Module, by_name: bool) -> None:
            super().__init__()
            self.fc, self.inner, self.by_name = nn.Linear(32, 32), inner, by_name

        def forward(self, x: Tensor) -> Tensor:
            given = {"x": self.fc(x), "mask": x.cos(), "scale": x[0] * 2}
            if self.by_name:
                return self.inner(**dict(reversed(given.items())))
            return self.inner(given["x"], given["mask"], scale=given["scale"])

    model = Root(Inner(), False)
    for inner, by_name in ((Inner(), True), (Starred(), False), (Starred(), True)):
        report = compare(model, with_weights_of(model, Root(inner, by_name)), X)
        assert report.passed and layer(report, "inner").reason is None, report.first_divergence


# Masks


class Attention(nn.Module):
    """Attention with a mask that is added, or one of bools in which True lets through or excludes."""

    def __init__(self, form: str):
        super().__init__()
        self.q, self.k, self.form = nn.Linear(32, 32), nn.Linear(32, 32), form

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        scores = self.q(x) @ self.k(x).mT / 6
        if self.form == "added":
            scores = scores + mask
        else:
            scores = scores.masked_fill(mask if self.form == "excluding" else ~mask, -torch.inf)
        weights = scores.softmax(-1)
        return weights @ x, weights if self.form == "added" else None


class Masked(nn.Module):
    def __init__(self, form: str, diagonal: int = 0):
        super().__init__()
        self.attention, self.out, self.diagonal = Attention(form), nn.Linear(32, 32), diagonal

    def forward(self, x: Tensor) -> Tensor:
        allowed = torch.ones(7, 7, dtype=torch.bool).tril(self.diagonal)
        mask = allowed
        if self.attention.form == "added":
            mask = torch.where(allowed, 0.0, torch.finfo(torch.float32).min)
        elif self.attention.form == "excluding":
            mask = ~allowed
        return self.out(self.attention(x, mask)[0])


@BOTH
@pytest.mark.parametrize(
    ("form", "other"),
    [("added", "allowing"), ("added", "excluding"), ("allowing", "added"), ("excluding", "added")],
)
def test_masks_of_another_form_mean_the_same(compare: Compare, form: str, other: str) -> None:
    model = Masked(form)
    report = compare(model, with_weights_of(model, Masked(other)), X)
    assert report.passed, report.first_divergence
    assert layer(report, "attention").own is not None


def test_masks_of_bools_that_are_opposites_are_a_difference() -> None:
    """Whether the layer means the opposite, too, cannot be known."""
    model = Masked("allowing")
    report = compare_models(model, with_weights_of(model, Masked("excluding")), X)
    assert culprit(report) == "Masked"


@pytest.mark.parametrize(("form", "other"), [("added", "allowing"), ("allowing", "added")])
def test_a_mask_of_another_form_that_lets_others_through_is_a_fault(form: str, other: str) -> None:
    model = Masked(form)
    report = compare_models(model, with_weights_of(model, Masked(other, diagonal=1)), X)
    assert culprit(report) == "Masked" and report.first_divergence is not None
    assert report.first_divergence.what == "input 1 of attention"
    assert failed(report) == ["Masked"]


def _added(allowed: Tensor) -> Tensor:
    return torch.zeros(allowed.shape).masked_fill(~allowed, -1e9)


class Made(nn.Module):
    """Makes something of a mask, by itself or in a layer."""

    def __init__(self, make: Callable[[Tensor], Tensor], inner: nn.Module | None = None):
        super().__init__()
        self.make, self.inner = make, inner

    def forward(self, allowed: Tensor) -> Tensor:
        return self.make(allowed) if self.inner is None else self.make(self.inner(allowed))


@pytest.mark.parametrize(
    ("make", "other"),
    [
        (_added, lambda allowed: allowed),
        (_added, lambda allowed: ~allowed),
        (lambda allowed: allowed, _added),
        (lambda allowed: allowed * 0.0, lambda allowed: allowed & False),
    ],
)
def test_a_mask_that_is_returned_has_no_other_form(make: Any, other: Any) -> None:
    allowed = torch.linspace(0, 9, 64).sin().reshape(8, 8) > 0
    report = compare_models(Made(make), Made(other), (allowed,))
    assert failed(report) == ["Made"]
    inner = compare_models(Made(torch.isfinite, Made(make)), Made(torch.isfinite, Made(other)), (allowed,))
    assert failed(inner) == ["inner"]


def test_a_mask_that_a_layer_is_given_in_another_form_is_returned_by_it_but_not_by_the_model() -> None:
    class Handing(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
            added = mask if mask.is_floating_point() else torch.where(mask, 0.0, -1e9)
            return (x @ x.mT + added).softmax(-1), mask

    class Outer(nn.Module):
        def __init__(self, form: Callable[[Tensor], Tensor], is_returned: bool):
            super().__init__()
            self.inner, self.form, self.is_returned = Handing(), form, is_returned

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
            y, mask = self.inner(x, self.form(torch.ones(7, 7).tril() > 0))
            return y, mask if self.is_returned else None

    for is_returned in (False, True):
        candidate = Outer(lambda allowed: allowed, is_returned)
        report = compare_models(Outer(_added, is_returned), candidate, X)
        assert failed(report) == (["Outer"] if is_returned else [])


# Attention of Hugging Face


def _models(name: str) -> tuple[Any, Any, dict[str, Any]]:
    transformers = pytest.importorskip("transformers")
    ids = torch.arange(32).reshape(2, 16)
    mask = torch.ones(2, 16, dtype=torch.long)
    mask[1, 11:] = 0
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    if name == "bert":
        config = transformers.BertConfig(vocab_size=40, **sizes)
        return transformers.BertModel, config, {"input_ids": ids, "attention_mask": mask}
    if name == "gpt2":
        config = transformers.GPT2Config(vocab_size=40, n_embd=32, n_layer=2, n_head=2, use_cache=False)
        return transformers.GPT2Model, config, {"input_ids": ids}
    if name == "llama":
        config = transformers.LlamaConfig(vocab_size=40, **sizes, num_key_value_heads=1, use_cache=False)
        return transformers.LlamaModel, config, {"input_ids": ids, "attention_mask": mask}
    if name == "t5":
        config = transformers.T5Config(
            vocab_size=40, d_model=32, d_kv=16, num_layers=2, num_heads=2, d_ff=48, use_cache=False
        )
        given = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": ids[:, :6]}
        return transformers.T5Model, config, given
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    ends = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_mel_bins": 8}
    config = transformers.WhisperConfig(
        vocab_size=40, d_model=32, max_source_positions=16, use_cache=False, **ends, **heads, **tokens
    )
    features = torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(0))
    return transformers.WhisperModel, config, {"input_features": features, "decoder_input_ids": ids[:, :6]}


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("kinds", [("eager", "sdpa"), ("sdpa", "eager")], ids="-".join)
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5", "whisper"])
def test_eager_attention_and_sdpa_agree_layer_by_layer(
    compare: Compare, kinds: tuple[str, str], name: str
) -> None:
    kind, config, given = _models(name)
    torch.manual_seed(0)
    model, candidate = (
        kind._from_config(copy.deepcopy(config), attn_implementation=one).eval() for one in kinds
    )
    candidate.load_state_dict(model.state_dict())
    report = compare(model, candidate, (), given)
    assert report.passed, report.first_divergence
    attentions = [one for one in report.layers if (one.uncompared or "").find("its other outputs") >= 0]
    assert attentions and all(one.own is not None for one in attentions)
    norm = [path for path, one in candidate.named_modules() if "norm" in type(one).__name__.lower()][-2]
    if compare is compare_models:
        candidate.get_submodule(norm).weight.data[3] += 1e-3
        assert failed(compare(model, candidate, (), given)) == [norm]


# In-place modules


class Ignored(nn.Module):
    """Activations whose results are ignored, because they write to what they are given."""

    def __init__(self, slope: float = 0.1):
        super().__init__()
        self.fc, self.out = nn.Linear(32, 32), nn.Linear(32, 32)
        self.relu, self.leaky = nn.ReLU(inplace=True), nn.LeakyReLU(slope, inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc(x)
        self.relu(x[..., :16])
        y = self.out(x)
        self.leaky(y)
        z = self.out(y)
        return self.leaky(z) + z + x


@BOTH
def test_in_place_activations_whose_results_are_ignored_pass(compare: Compare) -> None:
    torch.manual_seed(0)
    model = Ignored()
    report = compare(model, honest(model), X)
    assert report.passed, report.first_divergence
    assert layer(report, "leaky#1").own is not None and layer(report, "relu").own is not None


def test_gradients_of_in_place_activations_are_those_of_autograd() -> None:
    from torchport.candidates.flow import Flow, gradients_of
    from torchport.candidates.pair import pair_up

    model, x = Ignored(), X.clone().requires_grad_()
    model(x).sum().backward()
    flow = Flow()
    side = pair_up(model, model, X, None, layers=True, wish=None).reference
    found = side.run(
        flow, lambda y: gradients_of([(y.sum(), None)], {**flow.edges, **dict(model.named_parameters())})
    )
    torch.testing.assert_close(found["Ignored<0"], x.grad)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad)


@BOTH
def test_another_slope_of_an_in_place_activation_is_its_own(compare: Compare) -> None:
    torch.manual_seed(0)
    model = Ignored()
    candidate = Ignored(slope=0.11)
    candidate.load_state_dict(model.state_dict())
    report = compare(model, candidate, X)
    assert set(failed(report)) == {"leaky", "leaky#1"}


class Keyed(nn.Module):
    """Calls one layer twice and another once, by their keys in a dict."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.parts = nn.ModuleDict({first: nn.Linear(32, 32), second: nn.Linear(32, 32)})
        self.first, self.second = first, second

    def forward(self, x: Tensor) -> Tensor:
        again = self.parts[self.first](self.parts[self.first](x))
        return self.parts[self.second](again)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["p#1", "p<0", "p:1", "p#1<0"])
def test_a_module_with_the_name_of_another_ones_call_is_refused(name: str) -> None:
    with pytest.raises(CaptureError, match="TP0209.*a module of the model is called 'parts.p"):
        compare_models(Keyed("p", name), Keyed("p", name), X)


@pytest.mark.parametrize("name", ["q#1", "q<0", "<user___rates___item>", "p@1", "p#one"])
def test_a_module_with_a_name_of_its_own_is_the_culprit_if_it_is_wrong(name: str) -> None:
    candidate = Keyed("p", name)
    with torch.no_grad():
        candidate.parts[name].bias.mul_(1.01)  # type: ignore[union-attr, operator]
    assert culprit(compare_models(Keyed("p", name), candidate, X)) == f"parts.{name}"
