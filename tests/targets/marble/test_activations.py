"""Activation plugins: functions by name, which both evaluators use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.targets.marble.cases import Work
from tests.targets.marble.test_messages import assert_agree
from torchport.errors import UsageError
from torchport.targets.marble import messages
from torchport.targets.marble.activations import DEFAULT, Plugin, activation, activations, remove_activation
from torchport.targets.marble.composer import Composer, Value
from torchport.targets.marble.counts import synapses
from torchport.targets.marble.fans import fan, form_of
from torchport.targets.marble.groups import Form, Group, Kind, Port


@pytest.fixture
def snake() -> Iterator[str]:
    @activation("snake")
    def function(x: Tensor, rate: float = 1.0) -> Tensor:
        return x + torch.sin(rate * x) ** 2 / rate

    yield "snake"
    remove_activation("snake")


def named(name: str, given: Tensor, **options: Any) -> Work:
    form = form_of(given)
    group = Group("g", Kind.FUNCTION, f"activation:{name}", (Port("x"),), (form,), 7, options=options)
    return Work(group, [given], {})


def test_a_registered_function_is_what_neurons_compute(snake: str) -> None:
    x = torch.randn(3, 4)
    work = named(snake, x, rate=2.0)
    observed = assert_agree(work)
    assert torch.equal(work.compute()[0], x + torch.sin(2.0 * x) ** 2 / 2.0)
    assert observed.neurons == list(range(7, 19))
    assert synapses(work.ask) == fan(work.ask, range(12)).count == 12


def test_a_recipe_may_use_one_though_it_computes_nothing_yet(snake: str) -> None:
    composer = Composer("op", "layer", {}, 0)
    given = Value(Port("x"), Form((2, 3), "float32"))
    made = composer.add(Kind.FUNCTION, "activation:snake", [given])
    assert made.form == given.form


MODULES = {
    "relu": nn.ReLU(),
    "relu6": nn.ReLU6(),
    "leaky_relu": nn.LeakyReLU(),
    "elu": nn.ELU(),
    "selu": nn.SELU(),
    "celu": nn.CELU(),
    "gelu": nn.GELU(),
    "silu": nn.SiLU(),
    "mish": nn.Mish(),
    "sigmoid": nn.Sigmoid(),
    "logsigmoid": nn.LogSigmoid(),
    "tanh": nn.Tanh(),
    "softplus": nn.Softplus(),
    "softsign": nn.Softsign(),
    "tanhshrink": nn.Tanhshrink(),
    "hardtanh": nn.Hardtanh(),
    "hardsigmoid": nn.Hardsigmoid(),
    "hardswish": nn.Hardswish(),
    "hardshrink": nn.Hardshrink(),
    "softshrink": nn.Softshrink(),
    "identity": nn.Identity(),
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_the_default_plugin_has_torchs_own(name: str, dtype: torch.dtype) -> None:
    x = (torch.randn(50) * 4).to(dtype)
    work = named(name, x)
    assert torch.equal(work.compute()[0], MODULES[name](x))
    assert_agree(work)


def test_options_are_given_to_the_function() -> None:
    x = torch.randn(50)
    assert torch.equal(named("gelu", x, approximate="tanh").compute()[0], nn.GELU("tanh")(x))
    assert torch.equal(
        named("threshold", x, threshold=0.1, value=2.0).compute()[0], nn.Threshold(0.1, 2.0)(x)
    )


def test_all_of_the_default_plugin_keep_shape_and_dtype() -> None:
    needed = {"threshold": {"threshold": 0.0, "value": 1.0}}
    for name in DEFAULT.functions:
        (result,) = named(name, torch.randn(2, 3), **needed.get(name, {})).compute()
        assert result.shape == (2, 3)
    assert set(DEFAULT.functions) <= set(activations())


def code_of(caught: pytest.ExceptionInfo[UsageError]) -> str:
    return caught.value.code


def test_a_name_that_is_taken_is_refused(snake: str) -> None:
    for taken in (snake, "relu"):
        with pytest.raises(UsageError, match=taken) as caught:
            activation(taken)(torch.cos)
        assert code_of(caught) == "TP0830"


@pytest.mark.parametrize("name", ["", "two words", "7up", "a:b"])
def test_a_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name") as caught:
        activation(name)
    assert code_of(caught) == "TP0831"


def test_an_unknown_name_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(UsageError, match="did you mean 'sigmoid'") as caught:
        messages.compute(named("sigmoit", torch.ones(2)).group, [torch.ones(2)], {}, {})
    assert code_of(caught) == "TP0832"
    with pytest.raises(UsageError, match="no activation"):
        remove_activation("relu")
    with pytest.raises(UsageError, match="no activation"):
        Plugin("mine").remove("nothing")


def test_a_function_that_looks_at_other_values_is_found_out() -> None:
    activation("share")(lambda x: x.softmax(0))
    try:
        with pytest.raises(AssertionError, match="not close"):
            assert_agree(named("share", torch.randn(3, 4)))
    finally:
        remove_activation("share")


@pytest.mark.parametrize(
    "function",
    [lambda x: x.sum(), lambda x: x.double(), lambda x: x.tolist(), lambda x: x[None], lambda x: x > 0],
)
def test_a_function_that_changes_the_form_is_refused(function: Any) -> None:
    activation("bad")(function)
    try:
        with pytest.raises(UsageError, match="'bad'") as caught:
            named("bad", torch.ones(3)).compute()
        assert code_of(caught) == "TP0833"
    finally:
        remove_activation("bad")
