"""The graphs that Dynamo makes of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from torchport.debug.internals.tries import nothing_remembered
from torchport.debug.minifier.case import GraphCase, case_of, copied


def graphs_of(model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[GraphCase]:
    """The graphs that Dynamo makes of a model, each with the inputs of its first run."""
    found: list[GraphCase] = []

    def keep(module: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        is_kept = False

        def run(*inputs: Any) -> Any:
            nonlocal is_kept
            if not is_kept:
                found.append(case_of(module, [copied(value) for value in inputs]))
                is_kept = True
            return module(*inputs)

        return run

    with nothing_remembered():
        torch.compile(model, backend=keep)(*args, **kwargs)
    return found
