"""What is refused, with which reason, and what special numbers become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torchaudio

from .program import Case, Result, build, relative_error, run

pytestmark = pytest.mark.builds

X = torch.randn(2, 1000, generator=torch.Generator().manual_seed(0))


def none() -> torch.Tensor:
    raise AssertionError


REFUSED: dict[str, tuple[str, Any, torch.Tensor, int | None, str]] = {
    "no frame": ("stft", {"n_fft": 0}, X, None, "n_fft is 0"),
    "no hop": ("stft", {"hop_length": 0}, X, None, "hop_length is 0: every frame would be the first one"),
    "a long window": (
        "stft",
        {"n_fft": 64, "win_length": 65},
        X,
        None,
        "win_length is 65: a window has between 1 and n_fft = 64 numbers",
    ),
    "no window": ("stft", {"win_length": 0}, X, None, "win_length is 0"),
    "numbers of a window": (
        "stft",
        {"n_fft": 4, "window": {"values": [1.0, 2.0]}},
        X,
        None,
        "it has 2 numbers, and win_length is 4",
    ),
    "an empty signal": ("stft", {}, X[:, :0], None, "a signal of no samples"),
    "a short signal": ("stft", {"center": False}, X[:, :399], None, "399 samples"),
    "a signal too short to reflect": (
        "stft",
        {},
        X[:, :200],
        None,
        "a signal of 200 samples is centred with n_fft / 2 = 200 more on each side",
    ),
    "a number for a signal": ("stft", {}, torch.tensor(1.0), None, "a single number is no signal"),
    "integers": ("stft", {}, torch.arange(1000), None, "samples are f32 or f64, and not i64"),
    "half precision": ("stft", {}, X.half(), None, "samples are f32 or f64, and not f16"),
    "a stream in a circle": ("stream", {"pad_mode": "circular"}, X, 10, "padded in a circle"),
    "a short stream": ("stream", {"center": False}, X[:, :300], 100, "shorter than one frame"),
    "too few bins": (
        "istft",
        {},
        torch.randn(3, 200, 5, 2),
        None,
        "n_fft 400 has 201 bins on one side, and there are 200",
    ),
    "no frames": ("istft", {}, torch.randn(201, 0, 2), None, "no frames"),
    "no pairs": ("istft", {}, torch.randn(201, 7), None, "needs (…, bins, frames, 2)"),
    "a window that lets nothing through": (
        "istft",
        {"n_fft": 8, "hop_length": 8, "center": False},
        torch.randn(5, 3, 2),
        None,
        "the windows let nothing through at sample 0",
    ),
    "a hop over samples": (
        "istft",
        {"n_fft": 8, "hop_length": 9},
        torch.randn(5, 3, 2),
        None,
        "hop_length 9 is more than win_length 8",
    ),
    "no power": ("mel_spectrogram", {"spectrogram": {"power": None}}, X, None, "a power is needed"),
    "a power of 0": ("spectrogram", {"power": 0.0}, X, None, "power is 0"),
    "no bands": ("mel_spectrogram", {"n_mels": 0}, X, None, "0 bands"),
    "bands upside down": (
        "mel_spectrogram",
        {"f_min": 9000.0},
        X,
        None,
        "f_min 9000 has to be below f_max 8000",
    ),
    "other bins": ("mel_scale", {"n_stft": 100}, X, None, "made for 100 bins, and there are 2"),
    "many cepstra": ("mfcc", {"n_mfcc": 200}, X, None, "200 of 128 mel bands"),
    "top_db below 0": ("amplitude_to_db", {"top_db": -1.0}, X, None, "top_db is -1"),
    "top_db of one row": ("amplitude_to_db", {"top_db": 80.0}, X[0], None, "needs (…, bins, frames)"),
    "no rate": ("resample", {"new_freq": 0}, X, None, "rates are above 0"),
    "no filter": (
        "resample",
        {"new_freq": 3, "lowpass_filter_width": 0},
        X,
        None,
        "lowpass_filter_width is 0",
    ),
    "no frequencies": ("resample", {"new_freq": 3, "rolloff": 0.0}, X, None, "rolloff is 0"),
    "an unknown option": ("stft", {"n_ftt": 4}, X, None, "unknown field `n_ftt`"),
}


@pytest.fixture(scope="module")
def program(cargo: str) -> Path:
    return build()


@pytest.fixture(scope="module")
def refusals(program: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    cases = [Case(t, config, x, none, length) for t, config, x, length, _ in REFUSED.values()]
    return dict(zip(REFUSED, run(program, cases, tmp_path_factory.mktemp("refused")), strict=True))


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_the_reason(name: str, refusals: dict[str, Result]) -> None:
    assert REFUSED[name][-1] in (refusals[name].refused or "it is computed")


def special(kind: float) -> torch.Tensor:
    x = X.clone()
    x[0, 500] = kind
    return x


@pytest.fixture(scope="module", params=[float("nan"), float("inf"), 1e25], ids=str)
def spoiled(
    request: pytest.FixtureRequest, program: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Result, torch.Tensor]]:
    """A signal with one special sample, through each transform."""
    x = special(request.param)
    sizes = {"n_fft": 64, "win_length": 48, "hop_length": 16}
    window = torch.hann_window(48)
    z = torch.stft(X, 64, 16, 48, window, return_complex=True)
    z[0, 5, 20] = request.param
    mel = torchaudio.transforms.MelSpectrogram(n_mels=10, **sizes)
    resample = torchaudio.transforms.Resample(441, 160)
    decibels = torchaudio.transforms.AmplitudeToDB("power", 80.0)
    cases = [
        Case("spectrogram", sizes, x, lambda: torchaudio.transforms.Spectrogram(**sizes)(x)),
        Case("istft", sizes, z, lambda: torch.istft(z, 64, 16, 48, window)),
        Case("mel_spectrogram", {"spectrogram": sizes, "n_mels": 10}, x, lambda: mel(x)),
        Case("amplitude_to_db", {"top_db": 80.0}, x.abs(), lambda: decibels(x.abs())),
        Case("resample", {"orig_freq": 441, "new_freq": 160}, x, lambda: resample(x)),
        Case("preemphasis", 0.97, x, lambda: torchaudio.functional.preemphasis(x)),
    ]
    results = run(program, cases, tmp_path_factory.mktemp("special"))
    return {c.transform: (r, c.expected()) for c, r in zip(cases, results, strict=True)}


@pytest.mark.parametrize(
    "name", ["spectrogram", "istft", "mel_spectrogram", "amplitude_to_db", "resample", "preemphasis"]
)
def test_a_special_sample_spreads_as_in_torch(
    name: str, spoiled: dict[str, tuple[Result, torch.Tensor]]
) -> None:
    result, expected = spoiled[name]
    assert result.value is not None, result.refused
    assert relative_error(result.value, expected) < 1e-5


def test_a_stream_gives_the_bits_of_the_whole(program: Path, tmp_path: Path) -> None:
    config = {"n_fft": 100, "hop_length": 30}
    lengths = (1, 7, 49, 50, 51, 333, 5000)
    cases = [Case("stft", config, X, none), *(Case("stream", config, X, none, n) for n in lengths)]
    whole, *streamed = (result.value for result in run(program, cases, tmp_path))
    assert whole is not None and whole.shape == (2, 51, 34, 2)
    for value in streamed:
        assert value is not None and torch.equal(value, whole)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_inverse_gives_the_signal_back(dtype: torch.dtype, program: Path, tmp_path: Path) -> None:
    x = X.to(dtype)
    sizes = [(100, 25), (101, 33), (64, 32), (400, 100)]
    configs = [{"n_fft": n, "hop_length": hop, "normalized": "window"} for n, hop in sizes]
    there = run(program, [Case("stft", config, x, none) for config in configs], tmp_path)
    pairs = zip(configs, there, strict=True)
    cases = [Case("istft", c, torch.view_as_complex(r.value), none, 1000) for c, r in pairs]
    for result in run(program, cases, tmp_path):
        assert result.value is not None, result.refused
        assert relative_error(result.value, x) < (1e-5 if dtype == torch.float32 else 1e-10)
