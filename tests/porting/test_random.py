"""Models that draw random numbers: refused unless allowed, and then nothing is said of what depends on them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import torchport
from torchport.capture.drawn import drawn_values
from torchport.capture.recorder import record
from torchport.errors import CaptureError, ParityError
from torchport.porting.port import Port
from torchport.report import phrases
from torchport.runs.report import Report


class Noise(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) + 0.25 * torch.randn_like(x)


class Gate(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.bernoulli(torch.sigmoid(x))


class Draws(nn.Module):
    """Every distribution, each into the same sum."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        shares = x.softmax(-1)
        total = torch.rand(n, 1) + torch.randn(n, 1) + torch.rand_like(x)
        total = total + torch.randint(5, (n, 1)) + torch.randint(-3, 3, (n, 1)) + torch.randperm(n)[:, None]
        total = total + torch.randint_like(x, 7) + torch.randint_like(x, 2, 4) + torch.bernoulli(x, 0.25)
        total = total + torch.normal(x, 0.5) + torch.normal(x, shares) + torch.normal(1.0, shares)
        total = total + torch.normal(0.0, 2.0, (n, 1)) + torch.empty_like(x).uniform_(-1, 1)
        total = total + torch.empty_like(x).exponential_(2.0) + torch.empty_like(x).normal_(1.0, 2.0)
        picked = torch.multinomial(shares, 2) + torch.multinomial(shares, 2, replacement=True)
        return total + picked.sum(-1, keepdim=True)


class Model(nn.Module):
    def __init__(self, *inner: nn.Module) -> None:
        super().__init__()
        self.first, self.last, self.head = nn.Linear(6, 6), nn.Linear(6, 3), nn.Linear(6, 2)
        self.inner = nn.Sequential(*inner)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.first(x)
        return {"noisy": self.last(self.inner(y)), "clean": self.head(y)}


class AllRandom(Model):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"noisy": super().forward(x)["noisy"]}


ARGS = (torch.linspace(-2, 2, 24).reshape(4, 6),)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, cargo: str) -> Port:
    torch.manual_seed(1)
    model = Model(Noise(), Gate(), Draws()).eval()
    return torchport.port(model, ARGS, out=tmp_path_factory.mktemp("random"), allow_random=True)


@pytest.fixture(scope="module")
def report(port: Port) -> Report:
    return port.check()


def edited(port: Port, old: str, new: str) -> Report:
    source = port.artifact.source  # type: ignore[attr-defined]
    text = source.read_text()
    assert text.count(old) == 1
    source.write_text(text.replace(old, new))
    try:
        return port.check(explain=False)
    finally:
        source.write_text(text)


def test_what_depends_on_random_numbers_is_left_out_and_the_rest_is_proven(report: Report) -> None:
    assert report.passed
    assert report.random is not None
    assert report.random.outputs == ("['noisy']",)
    assert report.random.proven == ("['clean']",)
    assert len(report.random.operations) == 19
    assert report.random.layers == ("inner.0", "inner.1", "inner.2", "inner", "last")
    layers = {layer.name: layer for layer in report.layers}
    assert layers["last"].chained is None and layers["head"].chained is not None
    for name in ("inner.0", "inner.1", "inner.2", "last"):
        own = layers[name].own
        assert own is not None and own.passed, name


def test_the_report_says_first_what_is_left_out(report: Report) -> None:
    assert "but for what is random" in phrases.headline(report)
    assert report.notes[0].startswith("random numbers are drawn by aten.randn_like.default at ")
    assert "1 output (['noisy']) of the model" in report.notes[0]
    assert json.loads(report.to_json())["random"]["outputs"] == ["['noisy']"]


def test_every_run_draws_other_numbers(port: Port, report: Report) -> None:
    drawn = {}
    for mode in ("lockstep", "chained"):
        with torchport.trace.reading.Trace(port.files.record(mode)) as trace:
            (key,) = [key for key in trace if key.startswith("inner.0/randn_like")]
            drawn[mode] = trace.get(key).clone()
    assert drawn["lockstep"].shape == (4, 6)
    assert not torch.equal(drawn["lockstep"], drawn["chained"])


def test_a_port_is_proven_on_other_inputs(port: Port) -> None:
    assert port.check((torch.randn(7, 6),)).passed


@pytest.mark.parametrize(
    ("old", "new", "culprit"),
    [
        ("ops::tanh(xs)", "ops::relu(xs)", "inner.0"),
        ("&ys, 0.25)", "&ys, 0.5)", "inner.0"),
        ("ops::sigmoid(xs)", "ops::mul_scalar(&ops::sigmoid(xs)?, 0.5)", "inner.1"),
    ],
)
def test_an_error_beside_or_before_what_is_drawn_is_found(
    port: Port, report: Report, old: str, new: str, culprit: str
) -> None:
    found = edited(port, old, new)
    assert not found.passed
    assert found.first_divergence is not None and found.first_divergence.layer == culprit


def test_random_numbers_that_are_not_drawn_are_missed(port: Port, report: Report) -> None:
    source = port.artifact.source.read_text()  # type: ignore[attr-defined]
    shown = re.search(r'check!\(\s*self\.probe,\s*"randn_like",\s*(.*?)\s*\)\?;', source, re.DOTALL)
    assert shown is not None
    found = edited(port, shown[0], f"{shown[1]};")
    assert found.first_divergence is not None and found.first_divergence.layer == "inner.0"
    assert "computed no value" in found.first_divergence.reason


def test_nothing_is_proven_if_every_output_is_random(tmp_path: Path, cargo: str) -> None:
    report = torchport.port(AllRandom(Noise()).eval(), ARGS, out=tmp_path, allow_random=True).check()
    assert report.status == "fail" and report.first_divergence is None
    assert phrases.headline(report).endswith("every output depends on random numbers, so nothing is proven")
    with pytest.raises(ParityError, match="TP0703.*noisy"):
        report.raise_for_divergence()


def test_random_numbers_are_refused_with_their_line(tmp_path: Path) -> None:
    with pytest.raises(
        CaptureError, match="TP0204: the model draws random numbers: aten.randn_like"
    ) as caught:
        torchport.port(Model(Noise()).eval(), ARGS, out=tmp_path)
    assert "test_random.py:" in str(caught.value.where)
    assert "allow_random" in str(caught.value.fix)


def test_the_generators_are_as_they_were_before(tmp_path: Path) -> None:
    model = Model(Noise()).eval()
    before = torch.get_rng_state()
    record(model, ARGS, allow_random=True)
    assert torch.equal(torch.get_rng_state(), before)


class Chosen(nn.Module):
    """A size that depends on random numbers, and a branch that draws."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.linear(x)
        places = (torch.rand(4) > 2).nonzero().squeeze(-1)
        ones = torch.ones(places.shape[0], 2)
        drawn = torch.cond(y.sum() > 0, lambda y: y + torch.rand_like(y), lambda y: y - 1, (y,))
        return ones, drawn, y * 2


def test_what_only_takes_a_size_from_random_numbers_depends_on_them() -> None:
    capture = record(Chosen().eval(), ARGS, allow_random=True)
    root = capture.plan.calls[capture.plan.root]
    drawn = drawn_values(capture.graph, capture.plan)
    assert [key in drawn.downstream for key in root.outputs] == [True, True, False]
    assert "linear" not in drawn.downstream


def test_no_port_draws_inside_control_flow(tmp_path: Path) -> None:
    port = torchport.port(Chosen().eval(), ARGS, out=tmp_path, allow_random=True)
    (todo,) = port.artifact.todos
    assert todo.op == "aten.rand_like.default" and "body of control flow" in todo.reason
