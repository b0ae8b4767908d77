"""Faults planted in ports that are right, to see whether a verdict can be trusted.

`python -m benchmarks.faults` (or `make faults`) plants every kind of fault in every model that has a place for
it, and counts: was it detected, was the right layer blamed, was the right cause suggested. `--zoo` counts false alarms.
"""
