"""Honest rewritings of models, to see how often a verdict is a false alarm.

`python -m benchmarks.honest` (or `make honest`) rewrites every model in every way that it has a part for, compares the
rewriting with the model, forward and backward, and counts the verdicts that are not `pass`.
"""
