"""`python -m benchmarks.faults`, or `make faults`."""

from .cli import app

app(prog_name="python -m benchmarks.faults")
