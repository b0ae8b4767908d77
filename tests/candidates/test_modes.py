"""Modes and threads: what is around the call changes no verdict, and what all threads share is left alone."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn

from torchport import compare_gradients, compare_models
from torchport.candidates import precision
from torchport.errors import UsageError
from torchport.runs.report import Report

from .models import InPlace, X, honest, net
from .test_forward import culprit, layer

pytestmark = pytest.mark.slow

Compare = Callable[..., Report]
BOTH = pytest.mark.parametrize("compare", [compare_models, compare_gradients], ids=["forward", "backward"])


@BOTH
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_the_mode_around_the_call_changes_nothing(compare: Compare, mode: Callable[[], object]) -> None:
    model, candidate = net(), honest(net())
    expected = compare(model, candidate, X)
    with mode():  # type: ignore[attr-defined]
        is_inference, is_grad = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
        inputs = X * 1
        report = compare(model, candidate, inputs)
        assert (torch.is_inference_mode_enabled(), torch.is_grad_enabled()) == (is_inference, is_grad)
    assert report.passed and report.rule == expected.rule
    assert [one.own for one in report.layers] == [one.own for one in expected.layers]


def test_a_model_made_in_inference_mode_is_compared_and_has_no_gradients() -> None:
    with torch.inference_mode():
        model, candidate = net(), net()
    assert compare_models(model, candidate, X).passed
    with pytest.raises(UsageError, match="weight of the reference was made in inference mode"):
        compare_gradients(model, net(), X)
    with pytest.raises(UsageError, match="weight of the candidate was made in inference mode"):
        compare_gradients(net(), candidate, X)


def test_a_forward_in_inference_mode_that_writes_in_place_is_compared_at_every_layer() -> None:
    class Inferring(InPlace):
        @torch.inference_mode()
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x)

    model = Inferring()
    report = compare_models(model, honest(model), X)
    assert report.passed and all(one.own is not None for one in report.layers)
    candidate = copy.deepcopy(model)
    candidate.relu = nn.LeakyReLU(0.001, inplace=True)  # type: ignore[assignment]
    assert culprit(compare_models(model, candidate, X)) == "relu"


@BOTH
def test_autocast_around_the_call(compare: Compare) -> None:
    model = net()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.is_autocast_cache_enabled()
        model(X)  # leaves casts of the weights behind
        assert compare(model, net(), X).passed
        assert torch.is_autocast_cache_enabled()


@BOTH
def test_two_threads_at_once_reach_the_verdicts_of_one(compare: Compare) -> None:
    """One of them compares the same model as the other; the third only computes meanwhile."""
    model, wrong, done = net(), net(), threading.Event()
    wrong.blocks[1].norm.eps = 2e-5  # type: ignore[union-attr]
    found: dict[str, object] = {}
    dtypes: set[torch.dtype] = set()

    def judged(name: str, candidate: nn.Module) -> None:
        try:
            found[name] = [compare(model, candidate, X, explain=False).passed for _ in range(3)]
        except BaseException as error:
            found[name] = error

    def bystander() -> None:
        while not done.is_set():
            dtypes.add(torch.ones(2).dtype)

    threads = [
        threading.Thread(target=judged, args=("right", honest(net()))),
        threading.Thread(target=judged, args=("wrong", wrong)),
    ]
    watcher = threading.Thread(target=bystander)
    for thread in (watcher, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    watcher.join()
    assert found == {"right": [True] * 3, "wrong": [False] * 3}
    assert dtypes == {torch.float32} and torch.get_default_dtype() == torch.float32
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_calls_that_a_model_makes_in_threads_of_its_own_are_a_part_of_their_caller() -> None:
    model = net()
    expected = [one.name for one in compare_models(model, net(), X).layers]

    class Slow(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(torch.no_grad()(model.head), x).result()
            return super().forward(x)

    model.blocks[0].up.__class__ = Slow  # type: ignore[union-attr]
    report = compare_models(model, net(), X)
    assert [one.name for one in report.layers] == expected
    assert report.passed and "no float64 truth" not in report.rule


def test_the_default_dtype_is_not_touched_and_the_truth_is_in_float64() -> None:
    """Whatever a model makes without a dtype is in float64 in the run that is the truth."""

    class Making(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            positions = torch.arange(32, device=x.device)
            made = torch.zeros(32) + torch.linspace(0, 1, 32) + torch.arange(0.0, 3.2, 0.1)
            made = made + positions / 3 + positions.sqrt() + 10000 ** (positions / 32)
            made[0] = x[0, 0, 0] / 3
            assert torch.get_default_dtype() == torch.float32
            dtypes.append(made.dtype)
            values.append(made)
            return x + made

    dtypes: list[torch.dtype] = []
    values: list[Tensor] = []
    model = Making()
    with precision.in_float64(model):
        model(X.double())
    assert dtypes == [torch.float64]
    positions = torch.arange(32, dtype=torch.float64)
    linspace = torch.linspace(0, 1, 32, dtype=torch.float64) + torch.arange(
        0.0, 3.2, 0.1, dtype=torch.float64
    )
    expected = linspace + positions / 3 + positions.sqrt() + 10000 ** (positions / 32)
    expected[0] = X.double()[0, 0, 0] / 3
    torch.testing.assert_close(values[0], expected, rtol=1e-14, atol=0)


def test_random_numbers_that_a_model_draws_are_the_same_in_the_truth() -> None:
    class Seeded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(32, 32)

        def forward(self, x: Tensor) -> Tensor:
            torch.manual_seed(3)
            return self.fc(x + torch.randn(32))  # type: ignore[no-any-return]

    model = Seeded()
    report = compare_models(model, honest(model), X)
    own = layer(report, "Seeded").own
    assert report.passed and own is not None
    inner = layer(report, "fc").own
    assert inner is not None and inner.noise is not None and inner.noise.floor_max < 1e-5


@BOTH
def test_settings_come_back_as_they_were(compare: Compare) -> None:
    torch.use_deterministic_algorithms(True)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        assert compare(net(), honest(net()), X).passed
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.backends.mha.get_fastpath_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
        torch.backends.mha.set_fastpath_enabled(True)
    model, candidate = net(), honest(net())
    state = torch.get_rng_state()
    compare(model, candidate, X)
    assert torch.equal(torch.get_rng_state(), state)
