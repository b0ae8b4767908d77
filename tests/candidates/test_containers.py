"""Containers of tensors: whatever holds them is looked into and stays the same object, or is refused by name."""

from __future__ import annotations

import copy
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from torchport import compare_gradients, compare_models
from torchport.candidates import leaves
from torchport.errors import CaptureError
from torchport.runs.report import Report

from .models import X, honest
from .test_forward import culprit, layer

pytestmark = pytest.mark.slow

Compare = Callable[..., Report]
BOTH = pytest.mark.parametrize("compare", [compare_models, compare_gradients], ids=["forward", "backward"])
Pair = namedtuple("Pair", ["one", "other"])


@dataclass(frozen=True)
class Frozen:
    one: Tensor
    other: Tensor


class Plain:
    def __init__(self, one: Tensor, other: Tensor) -> None:
        self.one, self.rest = one, [other, None, 3]


class Slotted:
    __slots__ = ("one", "other")

    def __init__(self, one: Tensor, other: Tensor) -> None:
        self.one, self.other = one, other


class Registered:
    """Is known to pytree, which leaves out what cannot be compared."""

    def __init__(self, one: Tensor, other: Tensor) -> None:
        self.one, self.other, self.ratio = one, other, 0.5


pytree.register_pytree_node(
    Registered, lambda made: ([made.one, made.other], None), lambda parts, _: Registered(*parts)
)


def cache(one: Tensor, other: Tensor) -> Any:
    from transformers import DynamicCache

    made = DynamicCache()
    made.update(one[:, None], other[:, None], 0)
    return made


MAKERS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "tuple": lambda one, other: (one, other),
    "named tuple": Pair,
    "list": lambda one, other: [one, [other]],
    "dict": lambda one, other: {"one": one, "more": {"other": other}},
    "ordered dict": lambda one, other: OrderedDict(one=one, other=other),
    "user dict": lambda one, other: UserDict(one=one, other=other),
    "read-only dict": lambda one, other: MappingProxyType({"one": one, "other": other}),
    "frozen dataclass": Frozen,
    "plain object": Plain,
    "object with slots": Slotted,
    "namespace": lambda one, other: SimpleNamespace(one=one, other=other),
    "registered": Registered,
    "distribution": lambda one, other: torch.distributions.Normal(one, other.exp(), validate_args=False),
    "DynamicCache": cache,
}
EVERY = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


class Inner(nn.Module):
    def __init__(self, make: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.one, self.other, self.make = nn.Linear(32, 32), nn.Linear(32, 32), make

    def forward(self, x: Tensor) -> Any:
        return self.make(self.one(x), self.other(x))


class Reading(nn.Module):
    """Takes the tensors out of what an inner module returns, after another module has been handed it."""

    def __init__(self, make: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.inner, self.through, self.out = Inner(make), nn.Identity(), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        found = [tensor for _, tensor in leaves.tensors(self.through(self.inner(x)))]
        return self.out(found[0].reshape(x.shape) + found[1].reshape(x.shape))  # type: ignore[no-any-return]


@BOTH
@EVERY
def test_tensors_in_what_a_model_returns_are_compared(compare: Compare, make: Any) -> None:
    model = Inner(make)
    assert compare(model, honest(model), X).passed
    candidate = Inner(lambda one, other: make(one, other * 1.001))
    candidate.load_state_dict(model.state_dict())
    assert compare(model, candidate, X, explain=False).status == "fail"


@BOTH
@EVERY
def test_tensors_in_what_an_inner_module_returns_are_compared(compare: Compare, make: Any) -> None:
    model = Reading(make)
    report = compare(model, honest(model), X)
    assert report.passed and layer(report, "inner").own is not None
    candidate = Reading(lambda one, other: make(one, other * 1.001))
    candidate.load_state_dict(model.state_dict())
    report = compare(model, candidate, X, explain=False)
    assert culprit(report).startswith("inner")


@EVERY
def test_a_container_as_an_input_comes_back_as_it_was(make: Any) -> None:
    class Taking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(32, 32)

        def forward(self, given: Any) -> Tensor:
            tensors = [tensor for _, tensor in leaves.tensors(given)]
            y = self.fc(tensors[0].reshape(4, 7, 32)) + tensors[1].reshape(4, 7, 32)
            tensors[0].zero_()
            return y  # type: ignore[no-any-return]

    one, other = X.clone(), X.cos()
    given = make(one, other)
    before = [id(tensor) for _, tensor in leaves.tensors(given)]
    model = Taking()
    for compare in (compare_models, compare_gradients):
        assert compare(model, honest(model), (given,)).passed
    assert [id(tensor) for _, tensor in leaves.tensors(given)] == before
    assert torch.equal(one, X)


@BOTH
@pytest.mark.parametrize("kind", [dict, list, SimpleNamespace])
def test_what_modules_write_into_a_container_that_is_handed_on_is_there_afterwards(
    compare: Compare, kind: type
) -> None:
    class Writing(nn.Linear):
        def forward(self, x: Tensor, store: Any) -> Tensor:
            y = super().forward(x)
            if isinstance(store, dict):
                store[len(store)] = y
            elif isinstance(store, list):
                store.append(y)
            else:
                vars(store)[f"layer{len(vars(store))}"] = y
            return y

    class Storing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Writing(32, 32), Writing(32, 32)

        def forward(self, x: Tensor) -> Any:
            store = kind()
            self.second(self.first(x, store).tanh(), store)
            return store

    model = Storing()
    report = compare(model, honest(model), X)
    assert report.passed
    forward = compare_models(model, honest(model), X)
    assert forward.compared >= 4
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong.second.weight *= 1.001
    assert culprit(compare(model, wrong, X, explain=False)).startswith("second")


def summed_backwards(model: nn.Module) -> nn.Module:
    """A copy of a language model whose keys and values are the same but for rounding."""

    class Backwards(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.linear(x.flip(-1), self.weight.flip(-1))

    candidate = copy.deepcopy(model)
    for path, module in candidate.named_modules():
        if path.endswith(("k_proj", "v_proj")):
            module.__class__ = Backwards
    return candidate


@pytest.mark.slow
def test_a_language_model_that_fills_a_cache_is_compared_at_every_layer() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        use_cache=True,
    )
    model = LlamaForCausalLM(config).eval()
    ids = torch.arange(12).reshape(2, 6)
    report = compare_models(model, summed_backwards(model), (ids,))
    assert report.passed and report.outputs is not None
    with torch.no_grad():
        expected = model(ids).past_key_values
        again = model(ids[:, :1], past_key_values=copy.deepcopy(expected))
    assert again.past_key_values.get_seq_length() == 7
    given = copy.deepcopy(expected)
    report = compare_models(model, summed_backwards(model), (ids[:, :1],), {"past_key_values": given})
    assert report.passed and given.get_seq_length() == 6
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong.model.layers[1].self_attn.k_proj.weight *= 1.001
    report = compare_models(model, wrong, (ids,), explain=False)
    assert culprit(report) == "model.layers.1.self_attn.k_proj"


def test_a_container_that_contains_itself_is_looked_into_once() -> None:
    knot: dict[str, Any] = {"x": X}
    knot["self"] = knot
    assert [path for path, _ in leaves.tensors(knot)] == [("x",)]


SPECIAL: dict[str, Callable[[Tensor], Tensor]] = {
    "sparse_coo": lambda y: y[0].to_sparse(),
    "sparse_csr": lambda y: y[0].to_sparse_csr(),
    "nested": lambda y: torch.nested.nested_tensor([y[0], y[1, :3]]),
    "meta": lambda y: y.to("meta"),
    "mkldnn": lambda y: y.detach().to_mkldnn(),
    "quantized": lambda y: torch.quantize_per_tensor(y.detach(), 0.1, 0, torch.qint8),
}


@BOTH
@pytest.mark.parametrize(("kind", "make"), SPECIAL.items(), ids=SPECIAL.keys())
@pytest.mark.filterwarnings("ignore")
def test_tensors_without_plain_memory_are_refused_by_name(
    compare: Compare, kind: str, make: Callable[[Tensor], Tensor]
) -> None:
    class Returning(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return make(super().forward(x))

    class Wrapping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Returning(32, 32)

        def forward(self, x: Tensor) -> Tensor:
            self.inner(x)
            return x * 2

    for model, who in ((Returning(32, 32), "Returning"), (Wrapping(), "inner")):
        with pytest.raises(CaptureError, match=f"TP0205: {who} returns a {kind} tensor at itself"):
            compare(model, copy.deepcopy(model), X)
    with pytest.raises(CaptureError, match=f"TP0205: Linear is given a {kind} tensor"):
        compare(nn.Linear(32, 32), nn.Linear(32, 32), (make(X),))


def test_complex_outputs_have_gradients() -> None:
    class Spectral(nn.Module):
        def __init__(self, factor: float = 1.0) -> None:
            super().__init__()
            self.fc, self.factor = nn.Linear(32, 32), factor

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = torch.fft.fft(self.fc(x))
            return torch.complex(y.real, y.imag * self.factor)

    model = Spectral()
    report = compare_gradients(model, honest(model), X)
    assert report.passed and layer(report, "fc.weight").own is not None
    wrong = Spectral(1.001)
    wrong.load_state_dict(model.state_dict())
    assert compare_gradients(model, wrong, X, explain=False).status == "fail"
