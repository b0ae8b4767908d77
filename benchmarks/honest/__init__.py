"""Honest rewritings of models, to see how often a verdict is a false alarm.

`python -m benchmarks.honest` (or `make honest`) rewrites every model in every way that it has a part for, compares the
rewriting with the model, forward and backward, and counts the verdicts that are not `pass`.
"""

import os

# Some machines say that they have AMX, and die of an illegal instruction in products of bfloat16 that use it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
