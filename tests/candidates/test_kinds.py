"""Candidates of every kind: what cannot be seen into is one layer, is judged as one, and is named in the report."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport import compare_gradients, compare_models
from torchport.errors import UsageError

from .models import Net, X, honest, net
from .test_forward import culprit, layer, left_out

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning")]
Close = Callable[[nn.Module], Any]
PARTS = {f"blocks.0.{name}" for name in ("norm", "up", "act", "down")}


def _compiled_in_place(model: nn.Module) -> nn.Module:
    model.compile(backend="eager")
    return model


def _forward_compiled(model: nn.Module) -> nn.Module:
    model.forward = torch.compile(model.forward, backend="eager")  # type: ignore[method-assign]
    return model


def _compiled(model: nn.Module) -> Any:
    return torch.compile(model, backend="eager")


MODULES: dict[str, tuple[Close, str]] = {
    "scripted": (torch.jit.script, "scripted"),
    "traced": (lambda model: torch.jit.trace(model, X), "scripted"),
    "compiled": (_compiled, "compiled"),
    "compiled in place": (_compiled_in_place, "compiled"),
    "compiled forward": (_forward_compiled, "compiled"),
}
WITHOUT_PARAMETERS: dict[str, tuple[Close, str]] = {
    "frozen": (lambda model: torch.jit.freeze(torch.jit.script(model)), "scripted"),
    "optimised": (lambda model: torch.jit.optimize_for_inference(torch.jit.script(model)), "scripted"),
}
WHOLE: dict[str, tuple[Close, str]] = {
    **MODULES,
    "exported": (lambda model: torch.export.export(model, (X,)), "exported"),
    "exported module": (lambda model: torch.export.export(model, (X,)).module(), "exported"),
    "function": (lambda model: lambda x: model(x), "a function"),
    "compiled function": (lambda model: torch.compile(lambda x: model(x), backend="eager"), "a function"),
    "method": (lambda model: model.forward, "a function"),
    "partial": (lambda model: functools.partial(lambda one, x: one(x), model), "a function"),
}
EVERY = WHOLE | WITHOUT_PARAMETERS


def kinds(table: dict[str, tuple[Close, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("close", "kind"), table.values(), ids=table.keys())


def faulty(model: Net) -> Net:
    model.blocks[1].norm.eps = 2e-5  # type: ignore[union-attr]
    return model


@kinds(EVERY)
def test_a_whole_candidate_is_judged_by_its_outputs(close: Close, kind: str) -> None:
    report = compare_models(net(), close(net()), X)
    assert report.passed and report.compared == 1 and layer(report, "Net").own is not None
    stated = f"not compared: the candidate is {kind}, and what is inside it is not seen"
    assert len(left_out(report)) == 12 and set(left_out(report).values()) == {stated}
    assert culprit(compare_models(net(), close(faulty(net())), X, explain=False)) == "Net"


@pytest.mark.slow
@kinds(WHOLE)
def test_a_whole_candidate_is_judged_by_the_gradients_of_its_parameters(close: Close, kind: str) -> None:
    report = compare_gradients(net(), close(net()), X)
    assert report.passed and report.compared == 16 and layer(report, "blocks.0.up.weight").own is not None
    assert compare_gradients(net(), close(faulty(net())), X, explain=False).status == "fail"


@pytest.mark.slow
@kinds(WITHOUT_PARAMETERS)
def test_a_candidate_without_parameters_is_judged_by_the_gradients_of_its_inputs(
    close: Close, kind: str
) -> None:
    report = compare_gradients(net(), close(net()), X)
    assert report.passed and layer(report, "Net").own is not None
    assert left_out(report)["head.weight"] == "not compared: the candidate has no such parameter"
    assert culprit(compare_gradients(net(), close(faulty(net())), X, explain=False)) == "Net"


@pytest.mark.slow
@kinds(MODULES)
def test_a_closed_part_is_one_layer_and_all_outside_is_compared(close: Close, kind: str) -> None:
    def closed(model: Net) -> Net:
        model.blocks[0] = close(model.blocks[0])
        return model

    report = compare_models(net(), closed(net()), X)
    assert (
        report.passed and layer(report, "blocks.0").own is not None and layer(report, "head").own is not None
    )
    assert left_out(report) == dict.fromkeys(PARTS, f"not compared: it is inside {kind} code")
    report = compare_gradients(net(), closed(net()), X)
    assert report.passed and left_out(report).keys() >= PARTS
    assert layer(report, "blocks.0.up.weight").own is not None

    wrong = net()
    wrong.blocks[0].norm.eps = 2e-5  # type: ignore[union-attr]
    assert culprit(compare_models(net(), closed(wrong), X, explain=False)) == "blocks.0"
    assert culprit(compare_models(net(), closed(faulty(net())), X, explain=False)) == "blocks.1.norm"


@kinds(MODULES)
def test_a_closed_part_of_the_reference_is_one_layer_and_is_named(close: Close, kind: str) -> None:
    reference = net()
    reference.blocks[0] = close(reference.blocks[0])
    report = compare_models(reference, honest(net()), X)
    stated = f"its parts are not compared: in the reference it is {kind}"
    assert report.passed and layer(report, "blocks.0").own is not None
    assert layer(report, "blocks.0").uncompared == stated
    report = compare_gradients(reference, honest(net()), X)
    assert report.passed and layer(report, "blocks.0").uncompared == stated


def test_a_compiled_helper_inside_forward_hides_what_it_calls() -> None:
    class Inside(Net):
        def __init__(self) -> None:
            super().__init__()
            self.run = torch.compile(lambda x: self.blocks(x), backend="eager", fullgraph=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.run(x))  # type: ignore[no-any-return]

    candidate = Inside().eval()
    candidate.load_state_dict(net().state_dict())
    report = compare_models(net(), candidate, X)
    assert report.passed and layer(report, "head").own is not None
    assert left_out(report)["blocks.0"] == "not compared: the candidate never calls it"


def test_a_scripted_function_is_a_function() -> None:
    class Double(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2

    @torch.jit.script
    def double(x: Tensor) -> Tensor:
        return x * 2

    assert compare_models(Double(), double, X).passed


@pytest.mark.slow
def test_the_statistics_of_closed_candidates_are_put_back() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(7)).train()
    for close in (
        torch.jit.script,
        lambda one: functools.partial(one.__call__),
        lambda one: lambda x: one(x),
    ):
        inside = copy.deepcopy(model)
        candidate = close(inside)
        before = copy.deepcopy(inside.state_dict())
        assert compare_models(model, candidate, X).passed
        assert compare_gradients(model, candidate, X).passed
        after = candidate.state_dict() if isinstance(candidate, nn.Module) else inside.state_dict()
        assert all(torch.equal(value, before[name]) for name, value in after.items())


@kinds({name: MODULES[name] for name in ("scripted", "compiled", "compiled in place")})
def test_a_closed_reference_is_refused(close: Close, kind: str) -> None:
    with pytest.raises(UsageError, match=f"the reference is {kind}, and its layers are not seen"):
        compare_models(close(net()), net(), X)


@pytest.mark.slow
def test_a_module_compiled_by_inductor_is_one_layer() -> None:
    candidate = net()
    candidate.blocks[0].compile()
    report = compare_models(net(), candidate, X)
    assert report.passed and left_out(report).keys() == PARTS
    assert compare_gradients(net(), candidate, X).passed


@pytest.mark.slow
def test_a_package_of_aot_inductor_is_judged_by_its_outputs(tmp_path: Path) -> None:
    def packaged(model: nn.Module, name: str) -> Any:
        program = torch.export.export(model, (X,))
        path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / name))
        return torch._inductor.aoti_load_package(path)

    report = compare_models(net(), packaged(net(), "right.pt2"), X)
    assert report.passed and report.compared == 1 and len(left_out(report)) == 12
    assert culprit(compare_models(net(), packaged(faulty(net()), "wrong.pt2"), X, explain=False)) == "Net"
