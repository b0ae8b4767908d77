"""Metrics agree with torch computed there and then, whatever the dtype, shape and chunk size."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchport.parity.metrics import Metrics, compare

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
values = st.floats(-1e6, 1e6, width=32)
odd_values = values | st.sampled_from([math.nan, math.inf, -math.inf])


def pairs(elements: st.SearchStrategy[float]) -> st.SearchStrategy[list[tuple[float, float]]]:
    return st.lists(st.tuples(elements, elements), min_size=1, max_size=40)


def split(both: list[tuple[float, float]]) -> tuple[torch.Tensor, torch.Tensor]:
    golden, candidate = zip(*both, strict=True)
    return torch.tensor(golden), torch.tensor(candidate)


def nearby(dtype: torch.dtype, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(7)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    golden = torch.randn(shape, dtype=wide)
    return golden.to(dtype), (golden * (1 + 0.01 * torch.randn(shape, dtype=wide))).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX, ids=str)
def test_errors_match_torch(dtype: torch.dtype) -> None:
    golden, candidate = nearby(dtype, 3, 5, 7)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    error = (candidate.to(wide) - golden.to(wide)).abs()
    metrics = compare(golden, candidate)
    assert metrics.max_abs == error.max().item()
    assert metrics.mean_abs == pytest.approx(error.mean().item())
    assert metrics.mse == pytest.approx((error**2).mean().item())
    assert metrics.rmse == pytest.approx((error**2).mean().sqrt().item())
    assert metrics.max_rel == pytest.approx((error / golden.to(wide).abs()).max().item())
    flat_golden, flat_candidate = golden.to(wide).ravel(), candidate.to(wide).ravel()
    product = torch.vdot(flat_golden, flat_candidate).real
    assert metrics.cosine == pytest.approx(
        (product / flat_golden.norm() / flat_candidate.norm()).item(), rel=1e-12
    )
    assert error[metrics.worst_index] == error.max()
    assert metrics.golden_dtype == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX + [torch.int64, torch.bool, torch.uint8], ids=str)
def test_mismatches_match_torch_isclose_with_assert_close_defaults(dtype: torch.dtype) -> None:
    if dtype.is_floating_point or dtype.is_complex:
        golden, candidate = nearby(dtype, 400)
    else:
        golden, candidate = (torch.randint(0, 2, (400,)).to(dtype) for _ in range(2))
    rtol, atol = torch.testing._comparison.default_tolerances(golden)
    wide = golden.dtype
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex128 if dtype.is_complex else torch.float64
    close = torch.isclose(candidate.to(wide), golden.to(wide), rtol=rtol, atol=atol)
    metrics = compare(golden, candidate)
    assert (metrics.rtol, metrics.atol) == (rtol, atol)
    assert metrics.mismatch_pct == pytest.approx(100 * (~close).float().mean().item())


@given(pairs(values), st.integers(1, 41))
def test_chunk_size_does_not_change_the_result(both: list[tuple[float, float]], chunk: int) -> None:
    golden, candidate = split(both)
    residual = (candidate - golden) / 3
    whole = compare(golden, candidate, residual)
    chunked = compare(golden, candidate, residual, chunk=chunk)
    for name in ("max_abs", "max_rel", "excess", "mismatch_pct", "worst_index", "golden_max"):
        assert getattr(chunked, name) == getattr(whole, name)
    for name in ("mean_abs", "mse", "golden_rms"):
        assert getattr(chunked, name) == pytest.approx(getattr(whole, name))
    assert chunked.cosine == pytest.approx(whole.cosine, abs=1e-12)
    assert whole.noise is not None and chunked.noise is not None
    assert chunked.noise.candidate_rms == pytest.approx(whole.noise.candidate_rms)
    assert chunked.noise.candidate_max == whole.noise.candidate_max


@given(pairs(odd_values), st.integers(1, 41))
def test_nan_and_inf_are_compared_by_position(both: list[tuple[float, float]], chunk: int) -> None:
    golden, candidate = split(both)
    metrics = compare(golden, candidate, chunk=chunk)
    nan_golden, nan_candidate = golden.isnan(), candidate.isnan()
    infinite = (golden.isinf() | candidate.isinf()) & ~nan_golden & ~nan_candidate
    assert metrics.nan_golden == nan_golden.sum()
    assert metrics.nan_candidate == nan_candidate.sum()
    assert metrics.nan_mismatches == (nan_golden ^ nan_candidate).sum()
    assert metrics.inf_mismatches == (infinite & (golden != candidate)).sum()
    close = torch.isclose(candidate.double(), golden.double(), rtol=1.3e-6, atol=1e-5, equal_nan=True)
    assert metrics.mismatch_pct == pytest.approx(100 * (~close).double().mean().item())


def test_a_nan_on_one_side_is_the_worst_element() -> None:
    golden, candidate = torch.zeros(2, 3), torch.zeros(2, 3)
    candidate[0, 1], candidate[1, 2] = 5.0, math.nan
    metrics = compare(golden, candidate)
    assert metrics.worst_index == (1, 2)
    assert metrics.max_abs == 5.0


def test_all_nan_has_no_finite_error() -> None:
    nothing = torch.full((4,), math.nan)
    metrics = compare(nothing, nothing)
    assert math.isnan(metrics.max_abs) and math.isnan(metrics.cosine)
    assert metrics.nan_mismatches == 0 and metrics.mismatch_pct == 0.0


def test_complex_with_nan_in_one_part_is_nan() -> None:
    golden = torch.complex(torch.tensor([1.0, 2.0]), torch.tensor([0.0, math.nan]))
    metrics = compare(golden, torch.tensor([1 + 0j, 2 + 0j]))
    assert (metrics.nan_golden, metrics.nan_mismatches) == (1, 1)


@pytest.mark.parametrize("base", [2**40, 2**60, -(2**62)])
def test_integers_are_exact_where_floats_are_not(base: int) -> None:
    metrics = compare(torch.tensor([base, 3]), torch.tensor([base + 1, 3]))
    assert metrics.max_abs == 1.0
    assert metrics.mismatch_pct == 50.0
    assert metrics.worst_index == (0,)


@pytest.mark.parametrize(
    ("golden", "candidate"), [(torch.int8, torch.int16), (torch.int64, torch.uint32)], ids=str
)
def test_integers_of_different_widths_compare_by_value(golden: torch.dtype, candidate: torch.dtype) -> None:
    numbers = torch.tensor([0, 1, 100])
    assert compare(numbers.to(golden), numbers.to(candidate)).mismatch_pct == 0.0
    assert compare(numbers.to(golden) - 1, numbers.to(candidate)).mismatch_pct == 100.0


def test_bool_may_be_written_as_uint8_but_only_as_zero_and_one() -> None:
    golden = torch.tensor([True, False, True])
    assert compare(golden, golden.to(torch.uint8)).mismatch_pct == 0.0
    wrong = compare(golden, torch.tensor([2, 0, 1], dtype=torch.uint8))
    assert wrong.worst_index == (0,)


@pytest.mark.parametrize(
    ("golden", "candidate"),
    [
        (torch.float32, torch.int64),
        (torch.int64, torch.float32),
        (torch.bool, torch.int64),
        (torch.uint8, torch.bool),
        (torch.complex64, torch.float32),
    ],
    ids=str,
)
def test_dtypes_of_another_class_are_incomparable(golden: torch.dtype, candidate: torch.dtype) -> None:
    metrics = compare(torch.ones(3, dtype=golden), torch.ones(3, dtype=candidate))
    assert metrics.incomparable is not None and "dtype" in metrics.incomparable
    assert metrics.mismatch_pct == 100.0


@pytest.mark.parametrize("shape", [(3, 2), (6,), (2, 3, 1), (0,), ()])
def test_shapes_that_differ_are_incomparable(shape: tuple[int, ...]) -> None:
    metrics = compare(torch.zeros(2, 3), torch.zeros(shape))
    assert metrics.incomparable == f"shape {list(shape)} where [2, 3] was expected"
    assert math.isnan(metrics.max_abs)


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX + [torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)])
def test_scalars_and_empty_tensors(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    ones = torch.ones(shape, dtype=dtype)
    metrics = compare(ones, ones)
    assert (metrics.max_abs, metrics.cosine, metrics.mismatch_pct) == (0.0, 1.0, 0.0)
    assert metrics.worst_index is None
    assert metrics.numel == ones.numel()


def test_scalar_worst_index_is_the_empty_index() -> None:
    assert compare(torch.tensor(1.0), torch.tensor(2.0)).worst_index == ()


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32], ids=str)
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_dtypes_that_numpy_lacks(dtype: torch.dtype) -> None:
    golden = torch.tensor([0.5, 1.0, -2.0]).to(dtype)
    assert compare(golden, golden).max_abs == 0.0
    assert compare(golden, torch.tensor([0.5, 1.0, 2.0]).to(dtype)).max_abs == 4.0


def test_views_conjugates_and_leaves_are_read_as_they_stand() -> None:
    golden = torch.randn(4, 6)
    assert compare(golden.T, golden.T.contiguous()).max_abs == 0.0
    wave = torch.randn(5, dtype=torch.complex64)
    assert compare(wave.conj(), wave.conj().resolve_conj()).max_abs == 0.0
    assert compare(torch.ones(2, requires_grad=True), torch.ones(2)).max_abs == 0.0


def test_numpy_arrays_even_read_only_ones() -> None:
    golden = np.arange(6, dtype=np.float32).reshape(2, 3)
    golden.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compare(golden, golden + 1).max_abs == 1.0


def test_noise_is_the_distance_from_the_truth() -> None:
    torch.manual_seed(3)
    truth = torch.randn(1000, dtype=torch.float64)
    golden = truth.float()
    candidate = golden + 1e-6 * torch.randn(1000)
    residual = (truth - golden).float()
    noise = compare(golden, candidate, residual).noise
    assert noise is not None
    floor, distance = golden.double() - truth, candidate.double() - truth
    assert noise.floor_rms == pytest.approx(floor.square().mean().sqrt().item())
    assert noise.floor_max == pytest.approx(floor.abs().max().item())
    assert noise.candidate_rms == pytest.approx(distance.square().mean().sqrt().item())
    assert noise.candidate_max == pytest.approx(distance.abs().max().item())
    assert noise.unknown == 0


def test_elements_without_a_truth_are_counted() -> None:
    golden = torch.tensor([1.0, 2.0, math.inf])
    residual = torch.tensor([0.0, math.nan, math.nan])
    noise = compare(golden, golden, residual).noise
    assert noise is not None and noise.unknown == 1


def test_float64_has_no_truth_better_than_itself() -> None:
    golden = torch.ones(3, dtype=torch.float64)
    assert compare(golden, golden, torch.zeros(3)).noise is None


def test_huge_masks_do_not_overflow() -> None:
    golden = torch.tensor([0.0, torch.finfo(torch.float32).min])
    metrics = compare(golden, golden.clone())
    assert metrics.cosine == 1.0 and metrics.mse == 0.0


def test_json_round_trip_of_numbers_that_are_not_finite() -> None:
    metrics = compare(torch.tensor([0.0, math.nan]), torch.tensor([1.0, math.nan]))
    assert math.isinf(metrics.max_rel)
    text = metrics.model_dump_json()
    assert '"max_rel":"Infinity"' in text
    assert Metrics.model_validate_json(text) == metrics
