"""What is summed and decoded without torch is what torch has, and takes no more memory for a larger file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from torchport.parity.accumulate import Sums
from torchport.parity.bits import bits_of, numbers
from torchport.parity.dtypes import DTYPES, name_of
from torchport.parity.metrics import compare

MEGABYTES = """
import re, sys
from pathlib import Path
from torchport.diff.difference import diff
found = diff(*sys.argv[1:3])
assert found.passed and "torch" not in sys.modules
print(found.elements, re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.parametrize("name", DTYPES)
def test_the_table_of_dtypes_is_what_torch_says(name: str) -> None:
    dtype, known = getattr(torch, name), DTYPES[name]
    assert name_of(dtype) == name and known.itemsize == dtype.itemsize
    assert (known.kind == "complex", known.kind == "float") == (dtype.is_complex, dtype.is_floating_point)
    if dtype.is_floating_point or dtype.is_complex:
        info = torch.finfo(dtype)
        assert (known.eps, known.smallest_normal) == (info.eps, info.smallest_normal)
    if known.tolerances is not None:
        assert known.tolerances == torch.testing._comparison.default_tolerances(dtype)


@pytest.mark.parametrize("name", [name for name in DTYPES if "float8" in name])
def test_every_pattern_of_the_8_bit_floats_is_the_number_that_torch_reads(name: str) -> None:
    patterns = torch.arange(256).to(torch.uint8)
    expected = patterns.view(getattr(torch, name)).double().numpy()
    np.testing.assert_array_equal(numbers(patterns.numpy(), name), expected)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_every_pattern_of_the_16_bit_floats_is_the_number_that_torch_reads(name: str) -> None:
    patterns = torch.arange(1 << 16).to(torch.uint16).view(getattr(torch, name))
    with np.errstate(invalid="ignore"):  # Patterns that are signalling NaN.
        found = numbers(bits_of(patterns), name).astype(np.float64)
    np.testing.assert_array_equal(found, patterns.double().numpy())


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("size", [1, 8191, 8192, 8193, 70001])
def test_sums_are_those_of_float64_to_the_last_digits(size: int, scale: float) -> None:
    rng = np.random.default_rng(size)
    golden = (rng.standard_normal(size) * scale).astype(np.float32)
    candidate = (golden * (1 + 1e-6 * rng.standard_normal(size))).astype(np.float32)
    found = compare(golden, candidate, atol=0.0, rtol=1e-6)
    wide, other = golden.astype(np.longdouble), candidate.astype(np.longdouble)
    error = np.abs(other - wide)
    cosine = (wide * other).sum() / np.sqrt((wide**2).sum() * (other**2).sum())
    assert found.mse == pytest.approx(float((error**2).mean()), rel=1e-13)
    assert found.mean_abs == pytest.approx(float(error.mean()), rel=1e-13)
    assert found.golden_rms == pytest.approx(float(np.sqrt((wide**2).mean())), rel=1e-13)
    assert found.cosine == pytest.approx(float(cosine), rel=1e-13)
    assert found.max_abs == float(error.max())
    assert found.max_rel == float((error.astype(float) / np.abs(golden.astype(float))).max())


def test_an_error_is_over_its_limit_exactly_where_its_ratio_is_above_one() -> None:
    """The count of mismatches rests on it: the next number above the limit, whatever the limit, must count."""
    rng = np.random.default_rng(0)
    limits = np.concatenate(
        [rng.random(20000) * 10.0 ** rng.integers(-320, 300, 20000), 2.0 - 2.0 ** -np.arange(53.0)]
    )
    limits = limits[limits > 0]
    for errors, over in (
        (np.nextafter(limits, np.inf), True),
        (limits, False),
        (np.nextafter(limits, 0), False),
    ):
        assert ((errors / limits > 1.0) == over).all()
    sums = Sums(rtol=0.0, atol=1e-5)
    errors = np.array([np.nextafter(1e-5, 1), 1e-5, np.nextafter(1e-5, 0)])
    sums.add(0, np.zeros(3), errors, None)
    assert sums.mismatches == 1


def test_integers_that_are_one_float_are_still_told_apart() -> None:
    golden = np.array([2**62, 5, 2**63 - 1])
    sums = Sums(0.0, 0.0)
    sums.add(0, golden, golden - np.array([1, 0, 2**62]), None)
    assert (sums.mismatches, sums.max_abs, sums.worst_at) == (2, 2.0**62, 2)


@pytest.mark.slow
def test_a_larger_file_takes_no_more_memory_and_torch_is_not_loaded(tmp_path: Path) -> None:
    held = []
    for number in (1, 12):
        tensors = {f"layer.{i}": torch.full((1 << 21,), float(i)) for i in range(number)}
        for side in "ab":
            save_file(tensors, tmp_path / side)
        size = os.path.getsize(tmp_path / "a")
        command = [sys.executable, "-c", MEGABYTES, str(tmp_path / "a"), str(tmp_path / "b")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        elements, kilobytes = map(int, done.stdout.split())
        assert elements == number << 21
        held.append(kilobytes * 1024)
    assert size > 100e6
    assert held[1] < 200e6 and held[1] - held[0] < 16e6, json.dumps(held)
