"""How fast the audio crate is beside torch and torchaudio, with the same number of threads.

    python -m benchmarks.bench_audio
    python -m benchmarks.bench_audio --threads 1 --seconds 60 --only mel

Each transform is of one signal in float32 and 16 kHz. What is shown is the fastest of several runs on either side, in
rounds that measure both in turns, and the time of the crate by that of torch: below 1, the crate is faster.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torchaudio

from tests.audio.program import Case, build, relative_error, run

RATE = 16000
ROUNDS = 3
RUNS = 5


def cases(seconds: float) -> dict[str, Case]:
    torch.manual_seed(0)
    x = torch.randn(int(seconds * RATE))
    sizes = {"n_fft": 400, "hop_length": 160}
    window = torch.hann_window(400)
    bands_of = {"spectrogram": sizes, "n_mels": 80, "sample_rate": RATE}
    transforms = torchaudio.transforms
    mel = transforms.MelSpectrogram(RATE, n_fft=400, hop_length=160, n_mels=80)
    mfcc = transforms.MFCC(RATE, 40, melkwargs={**sizes, "n_mels": 80})
    decibels = transforms.AmplitudeToDB("power", 80.0)
    sizes_of = transforms.Spectrogram(400, hop_length=160)
    bands = mel(x)
    spectra = torch.stft(x, 400, 160, window=window, return_complex=True)
    large = torch.hann_window(1024)
    return {
        "stft 400 / 160": timed(
            "stft", sizes, x, lambda: torch.stft(x, 400, 160, window=window, return_complex=True)
        ),
        "stft 1024 / 256": timed(
            "stft",
            {"n_fft": 1024, "hop_length": 256},
            x,
            lambda: torch.stft(x, 1024, 256, window=large, return_complex=True),
        ),
        "stft 401 / 160": timed(
            "stft",
            {"n_fft": 401, "hop_length": 160},
            x,
            lambda: torch.stft(x, 401, 160, window=torch.hann_window(401), return_complex=True),
        ),
        "istft 400 / 160": timed(
            "istft", sizes, spectra, lambda: torch.istft(spectra, 400, 160, window=window)
        ),
        "spectrogram": timed("spectrogram", sizes, x, lambda: sizes_of(x)),
        "mel spectrogram, 80 bands": timed("mel_spectrogram", bands_of, x, lambda: mel(x)),
        "amplitude to dB": timed("amplitude_to_db", {"top_db": 80.0}, bands, lambda: decibels(bands)),
        "mfcc, 40 of 80 bands": timed("mfcc", {"n_mfcc": 40, "mel": bands_of}, x, lambda: mfcc(x)),
        **{f"resample {RATE} → {new}": resampled(x, new) for new in (8000, 22050, 44100, 48000)},
        "preemphasis": timed("preemphasis", 0.97, x, lambda: torchaudio.functional.preemphasis(x, 0.97)),
    }


def timed(transform: str, config: object, x: torch.Tensor, expected: Callable[[], torch.Tensor]) -> Case:
    return Case(transform, config, x, expected, runs=RUNS)


def resampled(x: torch.Tensor, new: int) -> Case:
    transform = torchaudio.transforms.Resample(RATE, new)
    return timed("resample", {"orig_freq": RATE, "new_freq": new}, x, lambda: transform(x))


def fastest(function: Callable[[], torch.Tensor]) -> float:
    function()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="the length of the signal")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", default="", help="part of a name")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    chosen = {name: case for name, case in cases(given.seconds).items() if given.only in name}
    program = build()
    own: dict[str, float] = dict.fromkeys(chosen, float("inf"))
    torchs = dict(own)
    errors: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            threads = str(given.threads)
            results = run(program, list(chosen.values()), Path(folder), RAYON_NUM_THREADS=threads)
            for (name, case), result in zip(chosen.items(), results, strict=True):
                assert result.value is not None and result.seconds is not None, f"{name}: {result.refused}"
                errors[name] = relative_error(result.value, case.expected())
                own[name] = min(own[name], result.seconds)
                torchs[name] = min(torchs[name], fastest(case.expected))
    ratios = {name: own[name] / torchs[name] for name in chosen}
    if given.json:
        print(json.dumps({"threads": given.threads, "seconds": given.seconds, "ratios": ratios}))
        return
    print(f"{given.seconds:g} s of sound, {given.threads} thread{'s' * (given.threads > 1)}")
    print(f"{'':28} {'crate':>9} {'torch':>9} {'ratio':>6}   off by")
    for name in chosen:
        figures = f"{own[name] * 1e3:6.2f} ms {torchs[name] * 1e3:6.2f} ms {ratios[name]:6.2f}"
        print(f"{name:28} {figures}   {errors[name]:.0e}")


if __name__ == "__main__":
    main()
