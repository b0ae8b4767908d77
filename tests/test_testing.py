"""assert_parity: what it raises, what it says, and what it takes for a candidate."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

import torchport
from torchport import assert_parity
from torchport.errors import ConvertError, ParityError, UsageError
from torchport.runs.run import Run
from torchport.targets import registry
from torchport.targets.base import Todo
from torchport.testing import describe

from . import echo_target
from .candidates.models import Renamed, WrongWeight, X, honest, instead, net
from .echo_target import EchoTarget, Values


def with_other_eps() -> nn.Module:
    candidate = net()
    candidate.blocks[1].norm.eps = 1e-4  # type: ignore[union-attr]
    return candidate


def test_it_gives_the_report_of_a_candidate_that_agrees() -> None:
    report = assert_parity(net(), honest(net()), (X,), {}, gradients=True)
    assert report.passed and report.model == "Net"


def test_it_raises_an_assertion_error_that_names_the_layer_the_numbers_and_the_rule() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_parity(net(), with_other_eps(), X)
    error = caught.value
    assert isinstance(error, ParityError) and error.code == "TP0701"
    report = torchport.compare_models(net(), with_other_eps(), X)
    own = next(layer.own for layer in report.layers if layer.name == "blocks.1.norm")
    assert own is not None and own.noise is not None and own.worst_index is not None
    text = str(error)
    assert "culprit    blocks.1.norm (torch.nn.modules.normalization.LayerNorm)" in text
    assert f"max {own.max_abs:.2g} at {list(own.worst_index)}" in text and "(rule: noise floor x 4)" in text
    assert f"the candidate is max {own.noise.candidate_max:.2g}" in text
    assert f"eager PyTorch max {own.noise.floor_max:.2g}" in text
    assert "times as far from the float64 truth as eager PyTorch" in text
    assert "12 of 13 layers agree" in text and error.where is not None and error.where in text


def test_it_says_what_was_not_compared() -> None:
    candidate = Renamed(net())
    candidate.out.bias.data += 1
    with pytest.raises(ParityError) as caught:
        assert_parity(net(), candidate, X, map={"blocks": "layers"})
    assert "1 layer is not compared: the candidate has no such module (head)" in str(caught.value)
    assert "1 layer is not compared: the candidate never calls it (blocks)" in str(caught.value)
    with pytest.raises(
        ParityError, match=r"12 layers are .* no such module \(blocks, blocks.0, .* and 6 more\)"
    ):
        assert_parity(net(), candidate, X)


def test_a_message_of_the_users_own_takes_the_place_of_ours() -> None:
    with pytest.raises(ParityError, match="^TP0701: the rewrite is wrong"):
        assert_parity(net(), with_other_eps(), X, msg="the rewrite is wrong")


def test_gradients_are_compared_only_when_asked_for(tmp_path: Path) -> None:
    candidate = net()
    instead(candidate, "blocks.0.up", WrongWeight)
    assert assert_parity(net(), candidate, X).passed
    with pytest.raises(ParityError, match=r"culprit    blocks.0.up.weight \(gradient of Linear.weight\)"):
        assert_parity(net(), candidate, X, gradients=True, out=tmp_path)
    assert Run.open(tmp_path).report.passed and not Run.open(tmp_path / "gradients").report.passed


def test_a_report_that_is_kept_is_named_in_the_message(tmp_path: Path) -> None:
    with pytest.raises(ParityError) as caught:
        assert_parity(net(), with_other_eps(), X, out=tmp_path)
    assert f"report     {tmp_path / 'report.json'}" in str(caught.value)
    assert describe(Run.open(tmp_path).report) == caught.value.message


def test_nan_and_other_shapes_are_told_without_numbers_that_mean_nothing() -> None:
    with pytest.raises(ParityError) as caught:
        assert_parity(net(), lambda x: net()(x) * torch.nan, X)
    assert "NaN on one side only" in str(caught.value) and "away from float64" not in str(caught.value)
    with pytest.raises(ParityError, match=r"shape \[3\] where \[4, 7, 16\] was expected"):
        assert_parity(net(), lambda x: torch.zeros(3), X)


# Ports


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> EchoTarget:
    target = EchoTarget()
    monkeypatch.setattr(echo_target, "TARGET", target)
    monkeypatch.setitem(registry._OWN, "echo", f"{echo_target.__name__}:TARGET")
    return target


def test_a_port_is_checked_on_the_inputs_against_the_reference(echo: EchoTarget, tmp_path: Path) -> None:
    model = net()
    port = torchport.port(model, X, target="echo", out=tmp_path / "port", name="net")
    report = assert_parity(copy.deepcopy(model), port, X, out=tmp_path / "kept")
    assert report.passed and report.target == "echo" and port.model is model
    assert Run.open(tmp_path / "kept").report.passed

    def wrong(mode: str, values: Values) -> Values:
        return {key: value + 1 if key == "head" else value for key, value in values.items()}

    echo.change = wrong
    with pytest.raises(ParityError, match="culprit    head"):
        assert_parity(model, port, X)


def test_a_port_has_no_map_no_gradients_and_all_its_layers(echo: EchoTarget, tmp_path: Path) -> None:
    port = torchport.port(net(), X, target="echo", out=tmp_path / "port", name="net")
    for options in ({"map": {"head": "out"}}, {"layers": False}, {"gradients": True}):
        with pytest.raises(UsageError, match="TP0801"):
            assert_parity(net(), port, X, **options)  # type: ignore[arg-type]


def test_a_port_with_operations_missing_is_told_as_such(echo: EchoTarget, tmp_path: Path) -> None:
    echo.todos = (Todo(op="aten.foo.default", layer="head", reason="nothing maps it"),)
    port = torchport.port(net(), X, target="echo", out=tmp_path / "port", name="net")
    with pytest.raises(ConvertError, match="TP0401: net: nothing maps aten.foo.default"):
        assert_parity(net(), port, X)
