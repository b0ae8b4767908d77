"""The operations of a call, cut out of the model, compute the same from recorded values alone."""

from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks import zoo
from torchport.capture.graph import CALL
from torchport.explain.suspect import find_suspect

from .suspects import Recorded, observe, recorded


class Twice(nn.Module):
    """One layer called twice, with work of its own between the calls, and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)
        self.head = nn.LSTM(6, 3, batch_first=True)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = self.inner(x * 2 + y)
        second = self.inner(first.relu())
        steps, _ = self.head(second[:, None])
        return second - x, steps.sum(1)


MODELS = {
    "twice": lambda: (Twice(), (torch.randn(4, 6), torch.randn(4, 6))),
    "mlp": zoo.ZOO["mlp"],
    "cnn": zoo.ZOO["cnn"],
    "bert": zoo.ZOO["bert"],
    "llama": zoo.ZOO["llama"],
}


SLOW = ("bert", "llama")


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in MODELS],
)
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    model, args = MODELS[request.param]()[:2]
    made = recorded(model, args, tmp_path_factory.mktemp(request.param))
    observe(made, {})
    return made


@pytest.mark.parametrize("stand_ins", [False, True], ids=["alone", "with stand-ins"])
def test_every_call_alone_computes_what_it_computed_in_the_model(
    recording: Recorded, stand_ins: bool
) -> None:
    plan, golden = recording.capture.plan, recording.capture.golden
    cut = 0
    for name, call in plan.calls.items():
        own = [node for node in recording.capture.graph.modules[call.module].nodes if node.op != CALL]
        suspect = find_suspect(recording.values, name, plan.calls[name].outputs[0], stand_ins=stand_ins)
        if suspect is None:
            assert stand_ins or not own or call.outputs[0] in plan.aliases
            continue
        cut += 1
        assert {node.name for node in suspect.slice.nodes} <= {node.name for node in own}
        for key in suspect.slice.outputs:
            assert torch.equal(suspect.golden(key), golden[key]), (name, key)
            assert torch.equal(suspect.observed[key], golden[key])
    assert cut > len(plan.calls) // 2


def test_values_that_the_calls_inside_give_are_inputs(tmp_path: Path) -> None:
    made = recorded(Twice(), (torch.randn(4, 6), torch.randn(4, 6)), tmp_path)
    observe(made, {})
    suspect = find_suspect(made.values, "Twice", "Twice")
    assert suspect is not None
    assert [node.op for node in suspect.slice.nodes if "mul" in node.op or "relu" in node.op] == [
        "aten.mul.Tensor",
        "aten.relu.default",
    ]
    assert {"Twice<0", "Twice<1", "inner", "inner#1", "head"} == set(suspect.slice.inputs)
    assert {"inner<0", "inner#1<0", "head<0", "Twice", "Twice:1"} == set(suspect.slice.outputs)


def test_a_module_that_is_called_twice_has_no_stand_in(tmp_path: Path) -> None:
    made = recorded(Twice(), (torch.randn(4, 6), torch.randn(4, 6)), tmp_path)
    observe(made, {})
    assert find_suspect(made.values, "Twice", "Twice", stand_ins=True) is None
