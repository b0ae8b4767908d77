"""The arm of honest rewritings: that they are honest, that the arm can fail, and that emulated arithmetic is exact."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from benchmarks.honest.arithmetic import PRODUCTS, in_class, rounded_to_tf32
from benchmarks.honest.arm import compared, outcomes
from benchmarks.honest.models import MODELS, example_of, half_of
from benchmarks.honest.outcome import Outcome, alarms, good_enough, share, table
from benchmarks.honest.patching import patched
from benchmarks.honest.rewriting import REWRITINGS, Candidate, Example, Rewriting

SAMPLE = (
    "adapted",
    "gates",
    "mobilenet",
    "feature_map",
    "rotary",
    "attention",
    "unet",
    "audio",
    "tagger",
    "cnn",
)
IN_FLOAT32 = {"convolution: FFT in float32"}


def in_float64(name: str) -> Example:
    example = example_of(name)
    args, kwargs = pytree.tree_map_only(
        Tensor,
        lambda tensor: tensor.double() if tensor.is_floating_point() else tensor,
        (example.args, example.kwargs),
    )
    return Example(name, copy.deepcopy(example.model).double(), args, kwargs)


def tensors(result: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]


def operations() -> list[Rewriting]:
    """Rewritings of parts of a model, which are exact but for rounding."""
    return [
        rewriting
        for rewriting in REWRITINGS.values()
        if rewriting.arithmetic in ("eager", "float32")
        and not rewriting.kind.startswith(("model", "arithmetic"))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_rewriting_computes_the_same_in_float64(name: str) -> None:
    example = in_float64(name)
    with torch.no_grad():
        expected = tensors(example.run(example.model))
        for rewriting in operations():
            candidate = rewriting.build(example)
            if candidate is None or candidate.reference is not None:
                continue
            tolerance = 1e-6 if rewriting.kind in IN_FLOAT32 else 1e-11
            for golden, value in zip(expected, tensors(example.run(candidate.model)), strict=True):
                error = (golden - value).abs().max() / golden.abs().max()
                assert error < tolerance, f"{rewriting.kind}: {error}"


def test_there_are_enough_rewritings_and_models() -> None:
    assert len(REWRITINGS) >= 60
    assert len(MODELS) >= 20


def test_every_second_model_is_held_out() -> None:
    halves = [half_of(name) for name in MODELS]
    assert abs(halves.count("calibration") - halves.count("held-out")) <= 1


@pytest.mark.slow
def test_operation_is_rewritten_in_each_model_that_has_it() -> None:
    kinds = ["linear: einsum", "convolution: sum over taps", "gelu: by its formula", "model: copy"]
    found = {(one.kind, one.direction) for one in outcomes("mlp", kinds)}
    both = ("forward", "backward")
    assert found == {
        (kind, way) for kind in ("linear: einsum", "gelu: by its formula", "model: copy") for way in both
    }


def test_replacements_are_gone_after_the_forward_pass() -> None:
    example = example_of("mlp")
    before = (F.linear, torch.matmul, Tensor.__matmul__, "softmax" in vars(Tensor))
    model, patch = patched(example.model, {name: lambda *_: None for name in ("linear", "matmul", "softmax")})
    example.run(model)
    assert (F.linear, torch.matmul, Tensor.__matmul__, "softmax" in vars(Tensor)) == before
    assert patch.calls == 0


def test_rewriting_that_computes_something_else_is_an_alarm() -> None:
    def build(example: Example) -> Candidate:
        model, patch = patched(example.model, {"gelu": lambda x, **_: F.gelu(x, approximate="tanh")})
        return Candidate(model, lambda: patch.calls)

    outcome = compared(example_of("mlp"), Rewriting("wrong", "float32", build), "forward")
    assert outcome is not None and outcome.alarm is not None
    assert outcome.alarm.layer == "act"
    assert not good_enough([outcome])


def test_rewriting_that_raises_is_an_alarm() -> None:
    def build(example: Example) -> Candidate:
        def run(x: Tensor) -> Tensor:
            raise RuntimeError("no")

        return Candidate(run, lambda: 1)

    outcome = compared(example_of("mlp"), Rewriting("broken", "eager", build), "forward")
    assert outcome is not None and outcome.status == "error"
    assert alarms([outcome])[0].endswith("the candidate fails on these inputs: RuntimeError: no")


PASSED = Outcome(
    kind="linear: einsum",
    model="mlp",
    half="calibration",
    direction="forward",
    arithmetic="float32",
    is_declared=False,
    calls=2,
    status="pass",
    compared=4,
    worst=0.25,
    layer="fc1",
    rule="noise floor x 4",
    alarm=None,
    seconds=0.1,
)


def test_one_alarm_in_two_hundred_runs_is_good_enough() -> None:
    failed = replace(PASSED, status="fail", worst=3.0)
    assert good_enough([failed, *[PASSED] * 199])
    assert not good_enough([failed, *[PASSED] * 198])
    assert not good_enough([])
    assert share([failed, PASSED]) == 0.5


def test_table_counts_runs_and_alarms_by_kind() -> None:
    rows = table([PASSED, replace(PASSED, model="cnn", status="fail", worst=3.0)]).splitlines()
    cells = [cell.strip() for cell in rows[2].split("|")[1:-1]]
    assert cells == ["linear: einsum", "float32 (not told)", "2", "2", "1", "3", "0.1"]


class TestArithmetic:
    def test_tf32_keeps_ten_bits_of_mantissa(self) -> None:
        step = 2.0**-10
        x = torch.tensor(
            [1 + step, 1 + 0.4 * step, 1 + 0.6 * step, 1 + 0.5 * step, 1 + 1.5 * step, -1 - 0.6 * step]
        )
        expected = torch.tensor([1 + step, 1.0, 1 + step, 1.0, 1 + 2 * step, -1 - step])
        assert torch.equal(rounded_to_tf32(x), expected)
        assert rounded_to_tf32(torch.tensor([float("inf"), 0.0])).tolist() == [float("inf"), 0.0]

    def test_classes_are_as_coarse_as_their_digits(self) -> None:
        """The errors in units of a rounding of the terms: 2¹³ for TF32, 2¹⁶ for bfloat16, and more for their sums."""
        torch.manual_seed(0)
        left, right = torch.randn(64, 576), torch.randn(576, 48)
        truth = left.double() @ right.double()
        unit = 2**-24 * (left.double().square() @ right.double().square()).sqrt()
        errors = {
            name: float(((product(left, right) - truth) / unit).square().mean().sqrt())
            for name, product in PRODUCTS.items()
        }
        assert errors["float32"] < 20
        assert 2**11 < errors["tf32"] < 2**13
        assert errors["fp16_products"] == errors["tf32"]
        assert errors["bf16_products"] == pytest.approx(8 * errors["tf32"], rel=0.1)
        assert errors["bf16_sums"] > 2 * errors["bf16_products"]
        assert errors["fp16_sums"] > 2 * errors["fp16_products"]

    def test_sequential_product_rounds_after_every_term(self) -> None:
        """Adding 1 to 2²⁴ changes nothing, however often it is done."""
        ones = torch.ones(65, 1)
        row = torch.cat([torch.tensor([[2.0**24]]), torch.ones(1, 64)], 1)
        assert PRODUCTS["float32"](row, ones).item() == 2.0**24

    def test_subnormal_numbers_are_flushed(self) -> None:
        tiny = torch.tensor([[1e-39]])
        assert PRODUCTS["flush_to_zero"](tiny, torch.ones(1, 1)).item() == 0.0

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["cnn", "rotary", "decoder"])
    def test_gradients_are_computed_in_the_class(self, name: str) -> None:
        example = example_of(name)
        gradients = {}
        for label, model in (("eager", example.model), ("tf32", in_class(example.model, "tf32"))):
            example.run(model).square().sum().backward()
            gradients[label] = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        error = (gradients["tf32"] - gradients["eager"]).norm() / gradients["eager"].norm()
        assert 1e-5 < error < 1e-2
