"""Which differences pass by which rule; what no rule lets pass."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from torchport.parity.metrics import compare
from torchport.parity.tolerance import Drift, Fixed, NoiseFloor, Rule

RULES: list[Rule] = [NoiseFloor(), Fixed(1.0, 1e9), Drift()]
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)


def normed(xs: Tensor, eps: float) -> Tensor:
    return F.layer_norm(xs, xs.shape[-1:], eps=eps)


def residual_of(golden: Tensor, truth: Tensor) -> Tensor:
    return (truth - golden.double()).float()


def test_noise_floor_passes_an_honest_other_way_to_compute() -> None:
    torch.manual_seed(0)
    xs, weight = torch.randn(16, 512), torch.randn(256, 512)
    golden = xs @ weight.T
    order = torch.randperm(512)
    candidate = xs[:, order] @ weight[:, order].T
    residual = residual_of(golden, xs.double() @ weight.double().T)
    verdict = NoiseFloor().judge(compare(golden, candidate, residual))
    assert verdict.passed and 0 < verdict.ratio < 1
    assert verdict.rule == "noise floor x 4"


def test_noise_floor_catches_a_wrong_epsilon_that_assert_close_lets_pass() -> None:
    torch.manual_seed(0)
    xs = torch.randn(8, 128)
    golden, candidate = normed(xs, 1e-6), normed(xs, 2e-6)
    torch.testing.assert_close(candidate, golden)
    residual = residual_of(golden, normed(xs.double(), 1e-6))
    verdict = NoiseFloor().judge(compare(golden, candidate, residual))
    assert not verdict.passed and verdict.ratio > 1
    assert verdict.reason is not None and "float64 truth" in verdict.reason


@pytest.mark.parametrize("seed", range(40))
def test_noise_floor_does_not_fail_a_single_number_for_eagers_luck(seed: int) -> None:
    torch.manual_seed(seed)
    xs, weight = torch.randn(1, 512), torch.randn(1, 512)
    golden, candidate = F.linear(xs, weight), (xs * weight).flip(-1).sum(-1, keepdim=True)
    residual = residual_of(golden, F.linear(xs.double(), weight.double()))
    assert NoiseFloor().judge(compare(golden, candidate, residual)).passed
    verdict = NoiseFloor().judge(compare(golden, candidate + 0.001, residual))
    assert not verdict.passed and "few elements" in verdict.rule


def test_noise_floor_allows_a_rounding_step_where_eager_is_exact() -> None:
    golden = torch.ones(100)
    one_step = torch.nextafter(golden, torch.tensor(2.0))
    metrics = compare(golden, one_step, torch.zeros(100))
    assert NoiseFloor().judge(metrics).passed
    assert not NoiseFloor(multiple=1.0).judge(metrics).passed


def test_noise_floor_judges_by_maximum_too() -> None:
    golden = torch.ones(1_000_000)
    candidate = golden.clone()
    candidate[123_456] += 1e-5
    verdict = NoiseFloor().judge(compare(golden, candidate, torch.zeros_like(golden)))
    assert not verdict.passed and verdict.reason is not None and "maximum" in verdict.reason


def test_noise_floor_of_zeros_is_the_smallest_number() -> None:
    zeros = torch.zeros(40)
    assert NoiseFloor().judge(compare(zeros, zeros, zeros)).passed
    assert not NoiseFloor().judge(compare(zeros, torch.full((40,), 1e-30), zeros)).passed


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_noise_floor_knows_the_rounding_step_of_half_types(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    truth = torch.randn(1000, dtype=torch.float64)
    golden = truth.to(dtype)
    residual = residual_of(golden, truth)
    step = torch.finfo(dtype).eps
    near = (truth * (1 + step * (torch.rand(1000, dtype=torch.float64) - 0.5))).to(dtype)
    assert NoiseFloor().judge(compare(golden, near, residual)).passed
    far = (truth * (1 + 20 * step * (torch.rand(1000, dtype=torch.float64) - 0.5))).to(dtype)
    assert not NoiseFloor().judge(compare(golden, far, residual)).passed


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
def test_without_a_truth_the_verdict_is_assert_closes_and_says_so(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    golden = torch.randn(64, dtype=dtype)
    for error in (1e-9, 1e-3):
        candidate = golden + error
        verdict = NoiseFloor().judge(compare(golden, candidate))
        assert verdict.passed == torch.allclose(
            candidate, golden, *torch.testing._comparison.default_tolerances(golden)
        )
        assert "no float64 truth" in verdict.rule and "rtol" in verdict.rule


def test_a_truth_with_a_gap_is_not_used() -> None:
    golden = torch.ones(2)
    verdict = NoiseFloor().judge(compare(golden, golden, torch.tensor([0.0, math.nan])))
    assert verdict.passed and "no float64 truth" in verdict.rule


@given(
    st.lists(st.tuples(*[st.floats(-100, 100, width=32)] * 2), min_size=1, max_size=20),
    st.floats(0, 1),
    st.floats(0, 10),
)
def test_fixed_agrees_with_torch_allclose(both: list[tuple[float, float]], rtol: float, atol: float) -> None:
    golden, candidate = torch.tensor(both, dtype=torch.float64).T
    verdict = Fixed(rtol, atol).judge(compare(golden, candidate, rtol=rtol, atol=atol))
    assert verdict.passed == torch.allclose(candidate, golden, rtol=rtol, atol=atol)


def test_fixed_names_its_tolerances() -> None:
    metrics = compare(torch.ones(2), torch.tensor([1.0, 1.5]), rtol=0.1, atol=0.0)
    verdict = Fixed(0.1, 0.0).judge(metrics)
    assert not verdict.passed
    assert verdict.rule == "rtol 0.1, atol 0"
    assert verdict.reason == "50.0 % of the elements are outside rtol 0.1, atol 0"
    assert verdict.ratio == pytest.approx(5.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_drift_allows_half_the_digits(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    share = math.sqrt(torch.finfo(dtype).eps / 2)
    golden = 1000 * torch.randn(500, dtype=dtype)
    assert Drift().judge(compare(golden, golden * (1 + share / 3))).passed
    assert not Drift().judge(compare(golden, golden * (1 + share * 3))).passed


@every_rule
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8], ids=str)
def test_integers_and_bools_are_exact_by_every_rule(rule: Rule, dtype: torch.dtype) -> None:
    golden = torch.tensor([1, 0, 1]).to(dtype)
    assert rule.judge(compare(golden, golden)).passed
    wrong = torch.tensor([1, 1, 1]).to(dtype)
    verdict = rule.judge(compare(golden, wrong, rtol=rule.rtol, atol=rule.atol))
    assert not verdict.passed and verdict.rule == "exact"


@every_rule
def test_a_nan_or_inf_on_one_side_never_passes(rule: Rule) -> None:
    golden = torch.ones(3)
    for wrong in (math.nan, math.inf, -math.inf):
        candidate = torch.tensor([1.0, wrong, 1.0])
        for pair in ((golden, candidate), (candidate, golden)):
            metrics = compare(*pair, torch.zeros(3), rtol=rule.rtol, atol=rule.atol)
            assert not rule.judge(metrics).passed


@every_rule
def test_nan_and_inf_at_the_same_places_pass(rule: Rule) -> None:
    golden = torch.tensor([1.0, math.nan, -math.inf])
    metrics = compare(golden, golden.clone(), torch.tensor([0.0, math.nan, math.nan]))
    assert rule.judge(metrics).passed


@every_rule
def test_a_tensor_that_is_nan_everywhere_never_passes(rule: Rule) -> None:
    nothing = torch.full((3,), math.nan)
    for golden, candidate in ((nothing, nothing), (nothing, torch.ones(3))):
        assert not rule.judge(compare(golden, candidate)).passed


@every_rule
def test_inf_everywhere_at_the_same_places_passes(rule: Rule) -> None:
    masked = torch.full((3,), -math.inf)
    assert rule.judge(compare(masked, masked)).passed
    assert not rule.judge(compare(masked, -masked)).passed


@every_rule
def test_shape_and_dtype_mismatches_never_pass(rule: Rule) -> None:
    assert not rule.judge(compare(torch.zeros(2), torch.zeros(2, 1))).passed
    assert not rule.judge(compare(torch.zeros(0), torch.zeros(0, 1))).passed
    assert not rule.judge(compare(torch.zeros(2), torch.zeros(2, dtype=torch.int64))).passed


@every_rule
def test_two_empty_tensors_agree_by_name_of_a_rule_that_says_so(rule: Rule) -> None:
    verdict = rule.judge(compare(torch.zeros(0, 3), torch.zeros(0, 3)))
    assert verdict.passed and verdict.rule == "both empty"


@given(st.integers(0, 1000), st.floats(-9, 0), st.floats(-9, 0), st.floats(-9, 0))
def test_what_the_noise_floor_passes_drift_passes_too(
    seed: int, scale: float, floor: float, error: float
) -> None:
    """So that gradients, and what a run writes to, need not be judged by drift when their own rule has a truth."""
    torch.manual_seed(seed)
    truth = torch.randn(64, dtype=torch.float64) * 10**scale
    golden = (truth + 10**floor * torch.randn(64)).float()
    metrics = compare(golden, (truth + 10**error * torch.randn(64)).float(), residual_of(golden, truth))
    assert Drift().judge(metrics).passed or not NoiseFloor().judge(metrics).passed
