"""Two sets of tensors are the same or not, whatever the dtype, shape and size, and the verdict says why."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from torchport.diff import stream
from torchport.diff.difference import diff
from torchport.diff.result import Difference
from torchport.errors import TorchportError
from torchport.parity.metrics import compare

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def weights() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {
        "fc.weight": torch.randn(8, 4),
        "fc.bias": torch.randn(8),
        "steps": torch.tensor([2**60, 3]),
        "mask": torch.tensor([True, False]),
    }


def changed(name: str, change: object) -> dict[str, torch.Tensor]:
    tensors = weights()
    tensors[name] = change(tensors[name])  # type: ignore[operator]
    return tensors


def test_a_set_of_tensors_is_identical_to_itself() -> None:
    found = diff(weights(), weights())
    assert found.passed and found.first_difference is None
    assert (found.identical, found.within_tolerance, found.differing) == (4, 0, 0)
    assert all(entry.identical and entry.max_abs == 0.0 for entry in found.entries)
    assert found.elements == 8 * 4 + 8 + 2 + 2


@pytest.mark.parametrize(("factor", "passed"), [(1 + 1e-7, True), (1.001, False)])
def test_without_tolerances_the_verdict_is_that_of_assert_close(factor: float, passed: bool) -> None:
    candidate = changed("fc.weight", lambda tensor: tensor * factor)
    found = diff(weights(), candidate)
    assert found.rule == "assert_close by dtype"
    assert found.passed == passed
    try:
        torch.testing.assert_close(candidate["fc.weight"], weights()["fc.weight"])
    except AssertionError:
        assert not passed
    else:
        assert passed
    (entry,) = [entry for entry in found.entries if not entry.identical]
    assert entry.name == "fc.weight" and entry.passed == passed


def test_what_is_within_tolerance_is_not_called_identical() -> None:
    found = diff(weights(), changed("fc.bias", lambda tensor: tensor + 1e-7))
    assert (found.passed, found.identical, found.within_tolerance) == (True, 3, 1)


def test_tolerances_given_hold_for_every_dtype_and_the_other_one_is_zero() -> None:
    golden, candidate = (
        {"a": torch.ones(4), "b": torch.zeros(4)},
        {"a": torch.ones(4) * 1.05, "b": torch.zeros(4)},
    )
    assert diff(golden, candidate, rtol=0.1).passed
    assert not diff(golden, candidate, rtol=0.01).passed
    candidate["b"] = torch.full((4,), 1e-12)
    assert not diff(golden, candidate, rtol=0.1).passed
    assert diff(golden, candidate, rtol=0.1, atol=1e-9).passed
    assert diff(golden, candidate, atol=1.0).rule == "rtol 0, atol 1"


def test_integers_and_bools_are_exact_whatever_the_tolerance() -> None:
    found = diff(weights(), changed("steps", lambda tensor: tensor + 1), rtol=10.0, atol=10.0)
    assert not found.passed
    assert found.first_difference is not None and found.first_difference.name == "steps"
    assert not diff(weights(), changed("mask", lambda tensor: ~tensor), atol=10.0).passed


@pytest.mark.parametrize("golden", FLOATS, ids=str)
@pytest.mark.parametrize("candidate", FLOATS, ids=str)
def test_floats_of_two_widths_are_compared_after_widening(
    tmp_path: Path, golden: torch.dtype, candidate: torch.dtype
) -> None:
    values = torch.tensor([0.5, -1.25, 3.0, 0.0])
    for name, dtype in (("a", golden), ("b", candidate)):
        save_file({"x": values.to(dtype)}, tmp_path / name)
    found = diff(tmp_path / "a", tmp_path / "b")
    assert found.passed and found.entries[0].max_abs == 0.0
    assert found.entries[0].identical == (golden == candidate)


def test_nan_and_inf_are_compared_by_position() -> None:
    odd = torch.tensor([math.nan, math.inf, -math.inf, 1.0])
    same = diff({"x": odd}, {"x": odd.clone()})
    assert same.passed and same.entries[0].identical
    assert same.warnings == ("NaN at the same places in both: x",)
    for moved in (odd.roll(1), odd.nan_to_num(nan=0.0), odd.abs()):
        found = diff({"x": odd}, {"x": moved}, rtol=1e9, atol=1e9)
        assert not found.passed and found.first_difference is not None


def test_nan_everywhere_proves_nothing_even_on_both_sides() -> None:
    nothing = {"x": torch.full((3,), math.nan), "y": torch.ones(2)}
    found = diff(nothing, nothing)
    assert not found.passed
    assert "nothing is proven" in (found.entries[0].reason or "")


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (torch.ones(3, 2), "shape [3, 2] where [2, 3] was expected"),
        (torch.ones(2, 3, dtype=torch.int64), "dtype int64 where float32 was expected"),
        (torch.ones(2, 3, dtype=torch.complex64), "dtype complex64 where float32 was expected"),
    ],
)
def test_another_shape_or_kind_of_dtype_is_a_difference_of_that_name(
    other: torch.Tensor, reason: str
) -> None:
    found = diff({"x": torch.ones(2, 3), "y": torch.ones(1)}, {"x": other, "y": torch.ones(1)})
    assert (found.passed, found.differing, found.identical) == (False, 1, 1)
    assert found.first_difference is not None and found.first_difference.reason == reason


def test_names_of_one_side_are_listed_and_count_as_a_difference() -> None:
    golden, candidate = weights(), weights()
    del golden["mask"], candidate["fc.bias"]
    found = diff(golden, candidate)
    assert (found.only_in_a, found.only_in_b) == (("fc.bias",), ("mask",))
    assert not found.passed and found.differing == 0 and found.first_difference is None
    ignoring = diff(golden, candidate, ignore=["bias$", "^mask$"])
    assert ignoring.passed and set(ignoring.ignored) == {"fc.bias", "mask"}


def test_only_leaves_out_what_it_does_not_match() -> None:
    wrong = changed("steps", lambda tensor: tensor + 1)
    found = diff(weights(), wrong, only=[r"^fc\."])
    assert found.passed and [entry.name for entry in found.entries] == ["fc.weight", "fc.bias"]
    assert not diff(weights(), wrong, only=[r"^fc\.", "steps"]).passed


def test_patterns_that_match_nothing_are_told() -> None:
    found = diff(weights(), weights(), rename=["^nowhere=x"], ignore=["absent"], only=["fc", "gone"])
    assert found.warnings == (
        "--map '^nowhere=x' matches no name of B",
        "--ignore 'absent' matches no name",
        "--only 'gone' matches no name",
    )


def test_renamed_tensors_are_shown_under_both_names() -> None:
    candidate = {f"model.{name}": tensor for name, tensor in weights().items()}
    found = diff(weights(), candidate, rename=[r"^model\.="])
    assert found.passed
    assert (found.entries[0].name, found.entries[0].candidate_name) == ("fc.weight", "model.fc.weight")


def test_no_name_in_common_is_an_error_with_examples_and_the_rule_that_would_help() -> None:
    candidate = {f"model.{name}": tensor for name, tensor in weights().items()}
    with pytest.raises(TorchportError) as raised:
        diff(weights(), candidate)
    assert raised.value.code == "TP0342"
    assert "fc.weight" in raised.value.message and "model.fc.weight" in raised.value.message
    assert raised.value.fix == r"--map '^model\.=' would pair 4 more."


def test_names_left_over_on_both_sides_come_with_a_suggestion() -> None:
    golden = {"head": torch.ones(1), "encoder.a": torch.ones(1), "encoder.b": torch.ones(1)}
    candidate = {"head": torch.ones(1), "bert.enc.a": torch.ones(1), "bert.enc.b": torch.ones(1)}
    found = diff(golden, candidate)
    assert found.suggestion == r"--map '^bert\.enc\.=encoder.' would pair 2 more"
    rule = found.suggestion.split("'")[1]
    assert diff(golden, candidate, rename=[rule]).passed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ignore": ["."]}, "leave nothing"),
        ({"only": ["nothing like it"]}, "leave nothing"),
    ],
)
def test_nothing_left_to_compare_is_no_verdict(options: dict[str, list[str]], said: str) -> None:
    with pytest.raises(TorchportError, match=said) as raised:
        diff(weights(), weights(), **options)
    assert raised.value.code == "TP0342"


def test_empty_sides_and_empty_tensors_prove_nothing() -> None:
    for golden, candidate in (({}, weights()), (weights(), {}), ({"x": torch.ones(0)},) * 2):
        with pytest.raises(TorchportError) as raised:
            diff(golden, candidate)
        assert raised.value.code == "TP0342"
    assert diff({"x": torch.ones(0), "y": torch.ones(1)}, {"x": torch.ones(0), "y": torch.ones(1)}).passed


@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan])
def test_tolerances_that_are_no_numbers_are_refused(value: float) -> None:
    with pytest.raises(TorchportError) as raised:
        diff(weights(), weights(), rtol=value)
    assert raised.value.code == "TP0801"


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.complex64], ids=str)
def test_pieces_and_threads_do_not_change_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    """A tensor of many small pieces, some equal, some not, with NaN and Inf, and one short piece."""
    torch.manual_seed(1)
    golden = (torch.randn(5003, dtype=torch.float64) * 100).to(dtype)
    candidate = golden.clone()
    candidate[1500:] = (golden[1500:] + torch.randn(3503).to(torch.float64) * 3).to(dtype)
    if dtype.is_floating_point:
        golden[[700, 2000]] = math.nan
        candidate[[700, 3000]] = torch.tensor([math.nan, math.inf], dtype=dtype)
    whole = compare(golden, candidate)
    monkeypatch.setattr(stream, "PIECE", 1000)
    monkeypatch.setattr(stream, "CHUNK", 300)
    for name, tensor in (("a", golden), ("b", candidate)):
        save_file({"first": torch.ones(7), "x": tensor}, tmp_path / name)
    (entry,) = (entry for entry in diff(tmp_path / "a", tmp_path / "b").entries if entry.name == "x")
    for name, value in dict(whole).items():
        found = getattr(entry, name)
        if isinstance(value, float):
            assert found == pytest.approx(value, rel=1e-12, nan_ok=True), name
        else:
            assert found == value, name


def test_json_is_one_object_that_reads_back() -> None:
    odd = {"x": torch.tensor([math.nan, 1.0, 0.0]), "y": torch.ones(2)}
    found = diff(odd, {"x": torch.tensor([0.0, 1.0, 0.5]), "z": torch.ones(2)})
    data = json.loads(found.to_json())
    assert data["schema"] == 1 and data["passed"] is False
    assert data["entries"][0]["max_rel"] == "Infinity"
    assert Difference.model_validate_json(found.to_json()) == found


def test_the_worst_come_first() -> None:
    golden = {name: torch.ones(4) for name in "abcd"}
    candidate = {
        "a": torch.ones(4),
        "b": torch.ones(4) + 1e-6,
        "c": torch.ones(4) + 1,
        "d": torch.ones(4) + 0.1,
    }
    assert [entry.name for entry in diff(golden, candidate).worst()] == ["c", "d", "b"]
    candidate["d"] = torch.full((4,), math.nan)
    assert diff(golden, candidate).worst()[0].name == "d"


def test_long_comparisons_say_how_far_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchport.diff.difference.SAY_EVERY", -1.0)
    said: list[str] = []
    diff(weights(), weights(), progress=said.append)
    assert len(said) == 4 and said[-1] == "compared 0.0 of 0.0 GB"


def test_what_is_larger_than_the_page_cache_is_compared_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_file(weights(), tmp_path / "a")
    save_file(changed("fc.bias", lambda tensor: tensor + 1), tmp_path / "b")
    usual = diff(tmp_path / "a", tmp_path / "b")
    monkeypatch.setattr(stream, "_memory", lambda: 10)
    forgetful = diff(tmp_path / "a", tmp_path / "b")
    assert forgetful.entries == usual.entries and forgetful.differing == 1
