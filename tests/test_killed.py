"""Whenever a command is killed, the next one goes on cleanly, and the folder of the run is never of two verdicts."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ZOO = (pytest.mark.zoo, pytest.mark.timeout(3600))


@pytest.mark.parametrize(
    ("points", "kinds"),
    [
        pytest.param(4, ("port", "check"), marks=pytest.mark.slow, id="four points"),
        pytest.param(50, ("port", "check", "report", "minify"), marks=ZOO, id="fifty points"),
    ],
)
def test_a_killed_command_leaves_no_folder_of_two_verdicts(
    points: int, kinds: tuple[str, ...], tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    command = [sys.executable, "-m", "tests.killing", str(tmp_path), str(seed), str(points), *kinds]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stdout + done.stderr
