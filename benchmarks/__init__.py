"""What torchport costs and whether its verdicts can be trusted: run with `python -m benchmarks.NAME` from the root."""
