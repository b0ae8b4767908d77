"""The graphs that Dynamo makes of a model, or of all that a script compiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from torchport.capture.spec import run_script
from torchport.debug.internals.dynamo_state import named_backend
from torchport.debug.internals.every_compile import graphs_handed_to
from torchport.debug.internals.tries import nothing_remembered
from torchport.debug.minifier.case import GraphCase, case_of, copied
from torchport.errors import CaptureError


@dataclass(frozen=True)
class Captured:
    case: GraphCase
    """The graph, with the inputs of its first run."""
    backend: str | Callable[..., Any]
    """The backend that it was made for, by its name if torch knows that."""


@dataclass
class _Keeping:
    """A backend that keeps graphs, and runs them as they are."""

    found: list[Captured] = field(default_factory=list)

    def __call__(self, own: Any, module: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        is_kept = False

        def run(*inputs: Any) -> Any:
            nonlocal is_kept
            if not is_kept:
                case = case_of(module, [copied(value) for value in inputs])
                self.found.append(Captured(case, named_backend(own)))
                is_kept = True
            return module(*inputs)

        return run


def graphs_of(model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[GraphCase]:
    """The graphs that Dynamo makes of a model, each with the inputs of its first run."""
    keeping = _Keeping()
    with nothing_remembered():
        torch.compile(model, backend=partial(keeping, "eager"))(*args, **kwargs)
    return [one.case for one in keeping.found]


def graphs_of_script(script: Path, arguments: Sequence[str]) -> list[Captured]:
    """The graphs of all that a script compiles. They run as they are, so that no backend of its own can fail.

    If the script itself fails, it is what there is until then; its error is raised if that is nothing.
    """
    keeping = _Keeping()
    try:
        with nothing_remembered(), graphs_handed_to(keeping):
            run_script(script, arguments)
    except CaptureError:
        if not keeping.found:
            raise
    return keeping.found
