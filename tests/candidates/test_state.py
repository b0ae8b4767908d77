"""State that a forward pass writes to: compared when asked for, noted when not, and put back in any case."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from torchport import assert_parity, compare_gradients, compare_models
from torchport.errors import CaptureError, ParityError, UsageError
from torchport.runs.report import Report
from torchport.runs.run import Run
from torchport.trace.reading import Trace

from .models import Twice, X, honest
from .test_forward import culprit, failed, layer

Compare = Callable[..., Report]
BOTH = pytest.mark.parametrize("compare", [compare_models, compare_gradients], ids=["forward", "backward"])
STATISTICS = ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]


class Normed(nn.Module):
    def __init__(self, momentum: float = 0.1) -> None:
        super().__init__()
        self.fc, self.norm = nn.Linear(32, 32), nn.BatchNorm1d(7, momentum=momentum)
        self.out = nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.norm(self.fc(x)))  # type: ignore[no-any-return]


class Overwriting(nn.Module):
    def __init__(self, by: float = 1.0) -> None:
        super().__init__()
        self.fc, self.by = nn.Linear(32, 32), by

    def forward(self, x: Tensor, *, mask: Tensor | None = None) -> Tensor:
        y = self.fc(x)
        x.mul_(self.by)
        return y  # type: ignore[no-any-return]


def with_weights_of(model: nn.Module, other: nn.Module) -> nn.Module:
    other.load_state_dict(model.state_dict())
    return other


@BOTH
def test_statistics_that_a_training_step_writes_are_rows_of_the_report(compare: Compare) -> None:
    model = Normed().train()
    report = compare(model, honest(model), X, state=True)
    assert report.passed and report.notes == ()
    for name in STATISTICS:
        row = layer(report, name)
        assert row.own is not None and row.type == f"state BatchNorm1d.{name.rpartition('.')[2]}"
    assert layer(report, "norm.num_batches_tracked").rule == "exact"
    names = [one.name for one in report.layers]
    assert names.index("norm.running_mean") < names.index("norm")


@BOTH
def test_without_state_a_note_names_what_is_written(compare: Compare) -> None:
    model = Normed().train()
    report = compare(model, honest(model), X)
    note = f"the forward pass writes to {', '.join(STATISTICS)}: not compared without state=True"
    assert report.passed and report.notes == (note,)
    assert not any(one.name in STATISTICS for one in report.layers)
    assert compare(model.eval(), honest(model), X).notes == ()


@BOTH
def test_another_momentum_is_found_only_with_state(compare: Compare) -> None:
    model = Normed().train()
    candidate = with_weights_of(model, Normed(momentum=0.101)).train()
    assert compare(model, candidate, X).passed
    report = compare(model, candidate, X, state=True)
    assert culprit(report) in STATISTICS and set(failed(report)) <= {*STATISTICS}
    divergence = report.first_divergence
    assert divergence is not None and divergence.what == "value after the call"


def test_statistics_are_judged_from_golden_inputs() -> None:
    model = Normed().train()
    candidate = copy.deepcopy(model)
    with torch.no_grad():
        candidate.fc.weight *= 1.01
    report = compare_models(model, candidate, X, state=True, explain=False)
    assert failed(report) == ["fc"]
    chained = layer(report, "norm.running_var").chained
    assert chained is not None and chained.max_abs > 1e-4


def test_the_statistics_are_those_of_torch(tmp_path: Path) -> None:
    model = Normed().train()
    compare_models(model, copy.deepcopy(model), X, state=True, out=tmp_path)
    expected = copy.deepcopy(model)
    expected(X)
    run = Run.open(tmp_path)
    assert run.golden is not None and run.chained is not None
    for file in (run.golden, run.chained):
        with Trace(file) as trace:
            for name, value in expected.norm.named_buffers(prefix="norm"):
                torch.testing.assert_close(trace.get(name), value, rtol=0, atol=0)


@BOTH
def test_an_input_that_is_overwritten_is_a_row_of_the_report(compare: Compare) -> None:
    model, given = Overwriting(2.0), X.clone()
    report = compare(model, honest(model), given, {"mask": X > 0}, state=True)
    assert report.passed and layer(report, "input x").own is not None
    assert compare(model, honest(model), given).notes == (
        "the forward pass writes to input x: not compared without state=True",
    )
    wrong = with_weights_of(model, Overwriting(2.001))
    assert compare(model, wrong, given).passed
    assert culprit(compare(model, wrong, given, state=True)) == "input x"
    assert torch.equal(given, X)


@BOTH
def test_a_candidate_that_writes_less_or_more_is_found(compare: Compare) -> None:
    model = Overwriting(2.0)
    assert culprit(compare(model, with_weights_of(model, Overwriting(1.0)), X, state=True)) == "input x"
    assert culprit(compare(with_weights_of(model, Overwriting(1.0)), model, X, state=True)) == "input x"


def test_state_that_only_one_side_has_is_named() -> None:
    class Counting(Twice):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.count += 1
            return super().forward(x)

    counting, plain = Counting(), Twice()
    counting.load_state_dict(plain.state_dict(), strict=False)
    report = compare_models(counting, plain, X, state=True)
    assert report.passed
    assert layer(report, "count").uncompared == "not compared: the candidate has no such state"
    report = compare_models(plain, counting, X)
    assert report.notes == ("the candidate writes to count, which the reference does not have",)


def test_a_parameter_that_forward_writes_to_is_compared_and_put_back() -> None:
    class Codebook(nn.Module):
        def __init__(self, decay: float) -> None:
            super().__init__()
            self.codes, self.fc, self.decay = nn.Parameter(torch.ones(32)), nn.Linear(32, 32), decay

        def forward(self, x: Tensor) -> Tensor:
            y = self.fc(x) * self.codes
            if self.training:
                self.codes.data.mul_(self.decay)
            return y

    model = Codebook(0.9).train()
    assert compare_models(model, copy.deepcopy(model), X, state=True).passed
    candidate = with_weights_of(model, Codebook(0.91)).train()
    assert culprit(compare_models(model, candidate, X, state=True)) == "codes"
    assert compare_models(model, candidate, X).notes
    assert torch.equal(model.codes, torch.ones(32)) and torch.equal(candidate.codes, torch.ones(32))  # type: ignore[arg-type]


@BOTH
def test_what_a_module_holds_comes_back_as_it_was(compare: Compare) -> None:
    class Cache:
        def __init__(self) -> None:
            self.keys: list[Tensor] = []

    class Holding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.calls, self.last = nn.Linear(32, 32), [0], {"sum": torch.zeros(3)}
            self.memory, self.cache, self.number = torch.zeros(3), Cache(), 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls.append(len(self.calls))
            self.memory += 1
            self.last["sum"].add_(1)
            self.last["x"] = x
            self.cache.keys.append(x)
            self.number += 1
            return self.fc(x)  # type: ignore[no-any-return]

    model, candidate = Holding(), Holding()
    candidate.load_state_dict(model.state_dict())
    cache = model.cache
    assert compare(model, candidate, X).passed
    for one in (model, candidate):
        assert one.calls == [0] and one.number == 0 and one.cache.keys == [] and set(one.last) == {"sum"}
        assert torch.equal(one.memory, torch.zeros(3)) and torch.equal(one.last["sum"], torch.zeros(3))
    assert model.cache is cache


def test_a_coarser_candidate_has_its_statistics_measured_in_its_dtype() -> None:
    model = Normed().train()
    report = compare_models(model, copy.deepcopy(model).bfloat16(), X, state=True)
    assert report.passed and layer(report, "norm.running_mean").own is not None


def test_assert_parity_takes_state_and_its_message_has_the_note() -> None:
    model = Normed().train()
    candidate = with_weights_of(model, Normed(momentum=0.2)).train()
    assert assert_parity(model, candidate, X, gradients=True).notes
    with pytest.raises(ParityError, match=r"norm\.running_\w+ \(state BatchNorm1d"):
        assert_parity(model, candidate, X, state=True)
    with torch.no_grad():
        candidate.out.weight *= 2  # type: ignore[union-attr, operator]
    with pytest.raises(ParityError, match="not compared without state=True"):
        assert_parity(model, candidate, X)


def test_a_port_writes_to_no_state() -> None:
    from torchport.porting.port import Port

    port = object.__new__(Port)
    with pytest.raises(UsageError, match="no state=True"):
        compare_models(Normed(), port, X, state=True)


class Drawing(nn.Module):
    """Draws from a generator that is neither its own nor torch's."""

    def __init__(self, draw: Callable[[], float]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.draw = nn.Linear(32, 32), draw

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) * (1 + 0.2 * self.draw())  # type: ignore[no-any-return]


OUTSIDE = torch.Generator()
SOURCES: dict[str, Callable[[], float]] = {
    "Python": random.random,
    "numpy": lambda: float(np.random.rand()),
    "numpy's new kind": partial(np.random.default_rng(0).random),
    "a generator": lambda: torch.rand((), generator=OUTSIDE).item(),
}


@BOTH
@pytest.mark.parametrize("source", SOURCES)
def test_random_numbers_from_outside_of_torch_are_refused_and_put_back(compare: Compare, source: str) -> None:
    before = random.getstate(), str(np.random.get_state())
    draw = SOURCES[source]
    with pytest.raises(CaptureError, match="TP0204.*the reference does not give the same result twice"):
        compare(Drawing(draw), Drawing(draw), X)
    with pytest.raises(CaptureError, match="TP0204.*the candidate does not give the same result twice"):
        compare(Drawing(lambda: 0.5), Drawing(draw), X)
    assert (random.getstate(), str(np.random.get_state())) == before


@BOTH
def test_a_sum_in_another_order_every_time_is_no_random_number(compare: Compare) -> None:
    class Unordered(nn.Linear):
        """As torch's kernels that add up by atomic operations, which no seed keeps in order."""

        def forward(self, x: Tensor) -> Tensor:
            order = torch.randperm(32, generator=OUTSIDE)
            return (x.unsqueeze(-2) * self.weight)[..., order].sum(-1) + self.bias

    torch.manual_seed(0)
    model = Unordered(32, 16)
    assert compare(model, copy.deepcopy(model), X).passed


class Averaging(nn.Module):
    """Keeps an average of its inputs, which it multiplies by."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.average = nn.Linear(32, 32), nn.Buffer(torch.ones(32))

    def forward(self, x: Tensor) -> Tensor:
        self.average.lerp_(x.detach().mean((0, 1)), 0.1)
        return self.fc(x) * self.average  # type: ignore[no-any-return]


@BOTH
@pytest.mark.parametrize("arithmetic", ["float32", "bf16_sums"])
def test_a_backward_pass_that_is_pending_can_be_run_after_a_comparison(
    compare: Compare, arithmetic: str
) -> None:
    model, candidate = Averaging(), Averaging()
    candidate.fc.weight.data.mul_(1.5)
    x = torch.ones(4, 7, 32, requires_grad=True)
    before = model.average.clone()
    pending = model.fc(x * model.average).sum() + candidate.fc(x * candidate.average).sum()
    assert not compare(model, candidate, X, arithmetic=arithmetic).passed
    pending.backward()
    assert torch.equal(model.average, before) and x.grad is not None


class Cached(nn.Module):
    """Keeps a table after its first call."""

    table: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.table is None:
            frequencies = 10000 ** (-torch.arange(0, 32) / 32)
            self.table = torch.cos((torch.arange(x.shape[-2]).float() * 37.0)[:, None] * frequencies)
        return x * self.table


class Computing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        frequencies = 1.0 / 10000 ** (torch.arange(0, 32) / 32)
        return x * torch.cos(torch.outer(torch.arange(x.shape[-2]).float() * 37.0, frequencies))


def test_a_table_that_only_the_reference_keeps_is_named_since_its_values_are_exact_in_the_truth() -> None:
    cold, warm = Cached(), Cached()
    warm(X)
    note = "the reference keeps table outside of its weights: in float64 its values are exact"
    assert compare_models(warm, Computing(), X).notes == (note,)
    report = compare_models(cold, Computing(), X)
    assert report.passed and report.notes == ()
    assert compare_models(warm, copy.deepcopy(warm), X).notes == ()
    assert warm.table is not None and cold.table is None
