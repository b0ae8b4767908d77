"""Faults in candidates: rewrites of PyTorch layers, each wrong in one known way, compared with what they rewrite.

`python -m benchmarks.faults.rewrites` plants all of them and prints, for each kind, what was found.
"""
