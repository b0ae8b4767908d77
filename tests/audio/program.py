"""Cases for the audio crate, all of which one Rust program runs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from torchport.files import cache_directory
from torchport.targets.candle.build import find_cargo

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Case:
    """A transform with its settings on a signal, and what torch makes of it."""

    transform: str
    config: Any
    signal: torch.Tensor
    """Complex numbers are handed over as pairs."""
    expected: Callable[[], torch.Tensor]
    length: int | None = None
    runs: int = 0
    """How often it is run again to be timed."""


@dataclass(frozen=True)
class Result:
    value: torch.Tensor | None
    refused: str | None
    seconds: float | None


def build() -> Path:
    target = cache_directory() / "target"
    command = [find_cargo(), "build", "--quiet", "--package", "torchport-audio", "--example", "run_cases"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target / "debug" / "examples" / "run_cases"


def run(program: Path, cases: Sequence[Case], folder: Path, **variables: str) -> list[Result]:
    """What the crate makes of each case; one that it refuses has a reason."""
    signals: dict[str, torch.Tensor] = {}
    written = []
    for index, case in enumerate(cases):
        signal = torch.view_as_real(case.signal) if case.signal.is_complex() else case.signal
        signals[str(index)] = signal.contiguous().clone()
        written.append(
            {
                "transform": case.transform,
                "config": case.config,
                "input": str(index),
                "length": case.length,
                "runs": case.runs,
            }
        )
    (folder / "cases.json").write_text(json.dumps(written))
    save_file(signals, folder / "inputs.safetensors")
    names = ("cases.json", "inputs.safetensors", "outputs.safetensors")
    done = subprocess.run(
        [program, *(folder / name for name in names)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    values = load_file(folder / "outputs.safetensors")
    return [
        Result(values.get(str(i)), said["refused"].get(str(i)), said["seconds"].get(str(i)))
        for i in range(len(cases))
    ]


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest distance, as a part of the largest number; infinite if special numbers stand elsewhere.

    Which of them are infinite and which are no numbers depends on the order of sums.
    """
    expected = torch.view_as_real(expected.resolve_conj()) if expected.is_complex() else expected
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return float("inf")
    special = ~expected.isfinite()
    if not torch.equal(special, ~found.isfinite()):
        return float("inf")
    found, expected = found[~special].double(), expected[~special].double()
    if expected.numel() == 0:
        return 0.0
    return float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30))
