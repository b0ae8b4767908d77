"""Whenever a command is killed, the next one goes on cleanly, and the folder of the run is never of two verdicts."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ZOO = (pytest.mark.zoo, pytest.mark.timeout(3600))


KINDS = ("port", "check", "report", "minify")


@pytest.mark.parametrize(
    ("target", "points"),
    [
        pytest.param("torch", 4, marks=pytest.mark.slow, id="a point each"),
        pytest.param("torch", 50, marks=ZOO, id="fifty points"),
        pytest.param("candle", 20, marks=ZOO, id="twenty points in Rust"),
    ],
)
def test_a_killed_command_leaves_no_folder_of_two_verdicts(target: str, points: int, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    command = [sys.executable, "-m", "tests.killing", str(tmp_path), target, str(seed), str(points), *KINDS]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stdout + done.stderr
