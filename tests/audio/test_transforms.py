"""Every transform of the audio crate computes what torch and torchaudio compute."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import strategies as st

from . import settings
from .program import Case, Result, build, relative_error, run

pytestmark = pytest.mark.builds

STRATEGIES = {
    "stft": settings.stft_cases(),
    "istft": settings.istft_cases(),
    "spectrogram": settings.spectrogram_cases(),
    "mel": settings.mel_cases(),
    "resample": settings.resample_cases(),
    "other": settings.other_cases(),
}


def limit(case: Case) -> float:
    if case.signal.dtype not in (torch.float64, torch.complex128):
        return 1e-5
    # torchaudio computes the height of Kaiser's window in float32, whatever the signal is.
    return 1e-6 if case.transform == "resample" and case.config["window"] != "hann" else 1e-10


@pytest.fixture(scope="module")
def program(cargo: str) -> Path:
    return build()


def judged(cases: list[Case], results: list[Result]) -> tuple[list[str], Counter[str]]:
    """What is wrong, and how many cases were computed and refused on both sides."""
    wrong, kinds = [], Counter[str]()
    for case, result in zip(cases, results, strict=True):
        try:
            expected = case.expected()
        except Exception as error:  # whatever torch raises
            kinds["refused"] += 1
            if result.refused is None:
                wrong.append(f"{case.transform} {case.config} {case.signal.shape}: torch says {error}")
            continue
        if result.value is None:
            reason = f"refused: {result.refused}"
        else:
            error = relative_error(result.value, expected)
            kinds["computed"] += 1
            if error <= limit(case):
                continue
            reason = f"off by {error:.1e}, {result.value.shape} for {expected.shape}"
        described = f"{case.signal.dtype} {tuple(case.signal.shape)}"
        wrong.append(f"{case.transform} {case.config} {described} length={case.length}: {reason}")
    return wrong, kinds


@pytest.mark.parametrize("name", STRATEGIES)
def test_random_settings_agree_with_torch(name: str, program: Path, tmp_path: Path) -> None:
    check(STRATEGIES[name], 40, program, tmp_path)


@pytest.mark.zoo
@pytest.mark.parametrize("name", STRATEGIES)
def test_200_random_settings_agree_with_torch(name: str, program: Path, tmp_path: Path) -> None:
    check(STRATEGIES[name], 200, program, tmp_path, start=1)


def check(strategy: st.SearchStrategy[Case], count: int, program: Path, folder: Path, start: int = 0) -> None:
    cases = settings.drawn(strategy, count, start)
    wrong, kinds = judged(cases, run(program, cases, folder))
    assert not wrong, "\n".join(wrong)
    assert kinds["computed"] >= count / 3, kinds
