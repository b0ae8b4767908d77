"""What KernelDiff comes to on the kernels of a backend, in one word or a few."""

from __future__ import annotations

from typing import Literal

Verdict = Literal["pass", "fail", "no kernel ran", "not proven", "not compared"]
"""`no kernel ran` if eager PyTorch computed everything, `not proven` if it computed one of several graphs."""
