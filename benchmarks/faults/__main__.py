"""`python -m faults` from `benchmarks`, or `python benchmarks/faults` from anywhere."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.cli import app

app(prog_name="faults")
