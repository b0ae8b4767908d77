"""`python -m benchmarks.honest`, or `make honest`."""

from .cli import app

app(prog_name="python -m benchmarks.honest")
