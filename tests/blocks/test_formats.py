"""Blocks are those of ggml, bit for bit, and what no block can hold is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from torchport.blocks.formats import FORMATS, dequantise, format_called, quantise
from torchport.errors import QuantError, UsageError

from . import ggml


def weights(seed: int = 0, rows: int = 6) -> dict[str, np.ndarray]:
    """Matrices of several kinds, among them those that searches for scales stumble over."""
    random = np.random.default_rng(seed)
    plain = random.standard_normal((rows, 512)).astype(np.float32)
    heavy = (random.standard_t(2, (rows, 512)) * 0.02).astype(np.float32)
    sparse = plain * (random.random((rows, 512)) < 0.1)
    holes = plain.copy()
    holes[:, 32:64] = 0
    holes[1] = 0
    flat = np.repeat(plain[:, ::32], 32, axis=1)
    return {
        "plain": plain,
        "heavy": heavy,
        "sparse": sparse,
        "holes": holes,
        "flat": flat,
        "positive": np.abs(plain) + 1,
        "negative": -np.abs(plain) - 1,
        "tiny": plain * np.float32(1e-9),
        "large": plain * np.float32(1e3),
        "steps": np.round(plain * 2) / 2,
    }


@pytest.mark.parametrize("form", FORMATS)
def test_blocks_are_those_of_ggml(form: str) -> None:
    for kind, rows in weights().items():
        ours, theirs = quantise("w", rows, FORMATS[form]), ggml.quantise(rows, form)
        assert np.array_equal(ours, theirs), f"{kind}: {np.mean(ours != theirs):.2%} of the bytes differ"


@pytest.mark.parametrize("form", FORMATS)
def test_blocks_by_importance_are_those_of_ggml(form: str) -> None:
    random = np.random.default_rng(7)
    importance = (random.standard_normal(512) ** 2).astype(np.float32) + np.float32(1e-3)
    for kind, rows in weights(1).items():
        ours = quantise("w", rows, FORMATS[form], importance)
        theirs = ggml.quantise(rows, form, importance)
        assert np.array_equal(ours, theirs), f"{kind}: {np.mean(ours != theirs):.2%} of the bytes differ"


def drawn(seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Matrices of many kinds, each with an importance that is 0 for some columns."""
    random = np.random.default_rng(seed)
    width = 256 * int(random.integers(1, 4))
    plain = random.standard_normal((5, width)).astype(np.float32)
    kinds: dict[str, Callable[[], np.ndarray]] = {
        "plain": lambda: plain,
        "scaled": lambda: plain * np.float32(10.0 ** random.uniform(-12, 4)),
        "wide": lambda: (plain * random.lognormal(0, 3, plain.shape)).astype(np.float32),
        "steps": lambda: np.round(plain * random.integers(1, 20)).astype(np.float32),
        "the same": lambda: np.full_like(plain, np.float32(random.standard_normal())),
        "sparse": lambda: np.where(random.random(plain.shape) < 0.97, np.float32(0), plain),
    }
    for kind, make in kinds.items():
        rows = make()
        importance = (random.standard_normal(width) ** 2).astype(np.float32)
        yield kind, rows, importance * (random.random(width) < 0.7)


@pytest.mark.parametrize("form", ["q2_k", "q3_k", "q4_k", "q5_k", "q6_k"])
@pytest.mark.parametrize("seed", [12, 16, 1004, 1012])
def test_blocks_by_an_importance_with_zeros_are_those_of_ggml(seed: int, form: str) -> None:
    """Of these seeds some have scales that do not fit their bits: `wide` of 12 in q4_k, `steps` of 1004 in q2_k."""
    for kind, rows, importance in drawn(seed):
        ours = quantise("w", rows, FORMATS[form], importance)
        theirs = ggml.quantise(rows, form, importance)
        assert np.array_equal(ours, theirs), f"{kind}: {np.mean(ours != theirs):.2%} of the bytes differ"


@pytest.mark.parametrize("form", FORMATS)
def test_blocks_are_read_as_ggml_reads_them(form: str) -> None:
    for kind, rows in weights(2).items():
        blocks = quantise("w", rows, FORMATS[form])
        ours, theirs = dequantise(blocks, FORMATS[form]), ggml.dequantise(blocks, form, 512)
        assert np.array_equal(ours, theirs), kind


def test_a_matrix_that_is_quantised_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = weights(3)["plain"]
    whole = {name: quantise("w", rows, form) for name, form in FORMATS.items()}
    monkeypatch.setattr("torchport.blocks.formats.AT_A_TIME", 1024)
    for name, form in FORMATS.items():
        assert np.array_equal(quantise("w", rows, form), whole[name])
        assert np.array_equal(dequantise(whole[name], form), dequantise(whole[name][:], form))


def test_a_width_that_does_not_divide_is_refused_by_name() -> None:
    with pytest.raises(QuantError, match=r"fc\.weight cannot be q4_k: its rows have 384 weights"):
        quantise("fc.weight", np.zeros((2, 384), np.float32), FORMATS["q4_k"])
    with pytest.raises(QuantError, match="no multiple of the 32 in a block of q8_0"):
        quantise("fc.weight", np.zeros((2, 33), np.float32), FORMATS["q8_0"])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", FORMATS)
def test_weights_that_are_not_finite_are_refused_by_name(value: float, form: str) -> None:
    rows = np.zeros((2, 256), np.float32)
    rows[1, 17] = value
    with pytest.raises(QuantError, match=r"fc\.weight has weights that are NaN or infinite"):
        quantise("fc.weight", rows, FORMATS[form])


@pytest.mark.parametrize("form", FORMATS)
def test_weights_beyond_the_scales_are_refused(form: str) -> None:
    rows = np.full((1, 256), 3e38, np.float32)
    rows[0, ::2] = -3e38
    with pytest.raises(QuantError, match="65504"):
        quantise("fc.weight", rows, FORMATS[form])


@pytest.mark.parametrize(
    ("importance", "message"),
    [
        (np.ones(32, np.float32), "has shape"),
        (np.full(256, -1, np.float32), "negative"),
        (np.full(256, np.nan, np.float32), "NaN"),
    ],
)
def test_an_importance_that_cannot_be_is_refused(importance: np.ndarray, message: str) -> None:
    with pytest.raises(QuantError, match=message):
        quantise("fc.weight", np.zeros((2, 256), np.float32), FORMATS["q4_k"], importance)


def test_a_format_is_named_in_full() -> None:
    assert format_called("Q4_K") == "q4_k"
    for name in ("q4", "q4_k_m", ""):
        with pytest.raises(UsageError, match="there is no format"):
            format_called(name)
