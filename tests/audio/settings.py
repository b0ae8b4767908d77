"""Random settings of the audio crate's transforms, as strategies of hypothesis, with torch's own answer to each."""

from __future__ import annotations

from typing import Any

import torch
import torchaudio
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from .program import Case

WINDOWS = ("hann", "hamming", "blackman", "bartlett", "kaiser", "rectangular")
PAD_MODES = {"constant": "zeros", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}
NORMALIZED = {"no": False, "frame_length": "frame_length", "window": "window"}


def window_of(name: str, length: int, dtype: torch.dtype) -> torch.Tensor:
    if name == "rectangular":
        return torch.ones(length, dtype=dtype)
    if name == "kaiser":
        return torch.kaiser_window(length, True, 8.0, dtype=dtype)
    made: torch.Tensor = getattr(torch, f"{name}_window")(length, dtype=dtype)
    return made


def signal_of(draw: st.DrawFn, length: int, dtype: torch.dtype) -> torch.Tensor:
    lead = draw(st.sampled_from([(), (1,), (2,), (2, 3)]))
    noise = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    return torch.randn(*lead, length, dtype=dtype, generator=noise)


DTYPES = st.sampled_from([torch.float32, torch.float64])


@st.composite
def framing(draw: st.DrawFn) -> dict[str, Any]:
    """Sizes, window and normalisation of a transform, by torch's names."""
    n_fft = draw(st.integers(1, 600))
    win_length = draw(st.one_of(st.just(n_fft), st.integers(1, n_fft)))
    return {
        "n_fft": n_fft,
        "win_length": win_length,
        "hop_length": draw(st.integers(1, win_length)),
        "window": draw(st.sampled_from(WINDOWS)),
        "center": draw(st.booleans()),
        "pad_mode": draw(st.sampled_from(sorted(PAD_MODES))),
        "normalized": draw(st.sampled_from(sorted(NORMALIZED))),
        "onesided": draw(st.booleans()),
    }


def config_of(chosen: dict[str, Any]) -> dict[str, Any]:
    """The same by the names of the crate."""
    window: Any = {"kaiser": {"beta": 8.0}} if chosen["window"] == "kaiser" else chosen["window"]
    return {**chosen, "window": window, "pad_mode": PAD_MODES[chosen["pad_mode"]]}


def spectrogram(x: torch.Tensor, chosen: dict[str, Any], power: float | None, pad: int = 0) -> torch.Tensor:
    return torchaudio.functional.spectrogram(
        x,
        pad,
        window_of(chosen["window"], chosen["win_length"], x.dtype),
        chosen["n_fft"],
        chosen["hop_length"],
        chosen["win_length"],
        power,
        NORMALIZED[chosen["normalized"]],
        chosen["center"],
        chosen["pad_mode"],
        chosen["onesided"],
    )


def inverse(z: torch.Tensor, chosen: dict[str, Any], length: int | None) -> torch.Tensor:
    real = z.abs().dtype
    return torchaudio.functional.inverse_spectrogram(
        z,
        length,
        0,
        window_of(chosen["window"], chosen["win_length"], real),
        chosen["n_fft"],
        chosen["hop_length"],
        chosen["win_length"],
        NORMALIZED[chosen["normalized"]],
        chosen["center"],
        chosen["pad_mode"],
        chosen["onesided"],
    )


@st.composite
def stft_cases(draw: st.DrawFn) -> Case:
    chosen, dtype = draw(framing()), draw(DTYPES)
    chosen["hop_length"] = draw(st.integers(1, 800))
    x = signal_of(draw, draw(st.integers(1, 3000)), dtype)
    can_stream = not (chosen["center"] and chosen["pad_mode"] == "circular")
    transform = draw(st.sampled_from(["stft", "stream"] if can_stream else ["stft"]))
    length = draw(st.integers(1, 1000)) if transform == "stream" else None
    return Case(transform, config_of(chosen), x, lambda: spectrogram(x, chosen, None), length)


@st.composite
def istft_cases(draw: st.DrawFn) -> Case:
    # Of frames of one sample that are centred, torch cuts off all.
    chosen, dtype = draw(framing().filter(lambda chosen: chosen["n_fft"] > 1)), draw(DTYPES)
    if draw(st.integers(0, 3)):  # such that the windows reach over each other, and all samples are heard
        chosen |= {"hop_length": 1 + chosen["win_length"] // 3, "center": True}
    bins = chosen["n_fft"] // 2 + 1 if chosen["onesided"] else chosen["n_fft"]
    frames = draw(st.integers(1, 12))
    lead = draw(st.sampled_from([(), (2,), (2, 3)]))
    noise = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    pairs = torch.complex64 if dtype == torch.float32 else torch.complex128
    z = torch.randn(*lead, bins, frames, dtype=pairs, generator=noise)
    length = draw(st.one_of(st.none(), st.integers(1, 3000)))
    return Case("istft", config_of(chosen), z, lambda: inverse(z, chosen, length), length)


@st.composite
def spectrogram_cases(draw: st.DrawFn) -> Case:
    chosen, dtype = draw(framing()), draw(DTYPES)
    x = signal_of(draw, draw(st.integers(600, 3000)), dtype)
    power, pad = draw(st.sampled_from([1.0, 2.0, 0.5, 3.0])), draw(st.sampled_from([0, 0, 37]))
    config = {**config_of(chosen), "power": power, "pad": pad}
    return Case("spectrogram", config, x, lambda: spectrogram(x, chosen, power, pad))


@st.composite
def mel_cases(draw: st.DrawFn) -> Case:
    x = signal_of(draw, draw(st.integers(1200, 8000)), draw(DTYPES))
    rate = draw(st.sampled_from([8000, 16000, 22050, 24000, 44100]))
    n_fft = draw(st.sampled_from([256, 400, 401, 512, 1024]))
    f_min = draw(st.sampled_from([0.0, 20.0, 133.3]))
    shared = {
        "sample_rate": rate,
        "n_fft": n_fft,
        "win_length": draw(st.sampled_from([n_fft, n_fft - 100])),
        "hop_length": draw(st.integers(50, 200)),
        "f_min": f_min,
        "f_max": draw(st.one_of(st.none(), st.floats(f_min + 1000, rate / 2))),
        "n_mels": draw(st.integers(1, 128)),
        "power": draw(st.sampled_from([1.0, 2.0])),
        "center": draw(st.booleans()),
    }
    norm = draw(st.sampled_from(["no", "slaney"]))
    scale = draw(st.sampled_from(["htk", "slaney"]))
    normalized = draw(st.sampled_from(sorted(NORMALIZED)))
    config = mel_config({**shared, "norm": norm, "mel_scale": scale, "normalized": normalized})
    given_ = {
        **shared,
        "norm": None if norm == "no" else norm,
        "mel_scale": scale,
        "normalized": NORMALIZED[normalized],
    }
    if draw(st.booleans()):
        return Case(
            "mel_spectrogram", config, x, lambda: in_dtype(torchaudio.transforms.MelSpectrogram, x, given_)
        )
    n_mfcc, log = draw(st.integers(1, shared["n_mels"])), draw(st.booleans())
    ortho = draw(st.booleans())
    config = {"n_mfcc": n_mfcc, "log_mels": log, "ortho": ortho, "mel": config}
    mel = {name: value for name, value in given_.items() if name != "sample_rate"}
    cepstra = {"sample_rate": rate, "n_mfcc": n_mfcc, "log_mels": log, "norm": "ortho" if ortho else None}
    return Case(
        "mfcc",
        config,
        x,
        lambda: in_dtype(torchaudio.transforms.MFCC, x, {**cepstra, "melkwargs": mel}),
    )


def mel_config(options: dict[str, Any]) -> dict[str, Any]:
    """torchaudio's options of a MelSpectrogram, with those of the spectrogram by themselves."""
    own = ("sample_rate", "f_min", "f_max", "n_mels", "norm", "mel_scale")
    return {
        "spectrogram": {name: value for name, value in options.items() if name not in own},
        **{name: value for name, value in options.items() if name in own},
    }


def in_dtype(transform: Any, x: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
    """The transform with its tables in the dtype of the signal."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(x.dtype)
    try:
        made: torch.Tensor = transform(**options)(x)
    finally:
        torch.set_default_dtype(before)
    return made


@st.composite
def resample_cases(draw: st.DrawFn) -> Case:
    rates = st.sampled_from([(8000, 11025, 16000, 22050, 44100, 48000), (3, 7, 12, 100)])
    rates = st.sampled_from(draw(rates))
    x = signal_of(draw, draw(st.integers(1, 3000)), draw(DTYPES))
    beta = draw(st.one_of(st.none(), st.sampled_from([14.769656459379492, 6.0])))
    method = "sinc_interp_hann" if beta is None else "sinc_interp_kaiser"
    width, rolloff = draw(st.integers(1, 32)), draw(st.sampled_from([0.99, 0.9475937167399596, 0.5]))
    orig, new = draw(rates), draw(rates)
    precise = draw(st.booleans()) and x.dtype == torch.float32
    config = {
        "orig_freq": orig,
        "new_freq": new,
        "window": "hann" if beta is None else {"kaiser": {"beta": beta}},
        "lowpass_filter_width": width,
        "rolloff": rolloff,
        "precise": precise,
    }

    def expected() -> torch.Tensor:
        if precise:
            made = torchaudio.transforms.Resample(orig, new, method, width, rolloff, beta)
            resampled: torch.Tensor = made(x)
            return resampled
        return torchaudio.functional.resample(x, orig, new, width, rolloff, method, beta)

    return Case("resample", config, x, expected)


@st.composite
def other_cases(draw: st.DrawFn) -> Case:
    dtype = draw(DTYPES)
    if draw(st.booleans()):
        coefficient = draw(st.floats(-1, 1))
        x = signal_of(draw, draw(st.integers(1, 500)), dtype)
        return Case("preemphasis", coefficient, x, lambda: torchaudio.functional.preemphasis(x, coefficient))
    stype, top = draw(st.sampled_from(["power", "magnitude"])), draw(st.one_of(st.none(), st.floats(0, 120)))
    shape = draw(st.sampled_from([(7, 9), (2, 7, 9), (3, 2, 7, 9), (2, 3, 2, 5, 4)]))
    noise = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    x = torch.randn(shape, dtype=dtype, generator=noise).abs() ** 6
    config = {"stype": stype, "top_db": top}
    return Case("amplitude_to_db", config, x, lambda: torchaudio.transforms.AmplitudeToDB(stype, top)(x))


def drawn(strategy: st.SearchStrategy[Case], count: int, start: int = 0) -> list[Case]:
    """So many cases, the same each time."""
    found: list[Case] = []

    @seed(start)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found[:count]
