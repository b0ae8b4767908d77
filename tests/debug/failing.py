"""A backend that scripts import; it needs torch alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch


def fails_if_told(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Fails on a sine if the environment says so."""
    if "FAULT" in os.environ and any("sin" in str(node.target) for node in module.graph.nodes):
        raise RuntimeError("told to fail")
    return module.forward
