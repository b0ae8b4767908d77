"""Rewriting a model in one way, and comparing the two in one direction."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

import torchport
from torchport.errors import TorchportError
from torchport.runs.report import Report

from . import (
    activations,
    arithmetic,
    attention,
    convolutions,
    folding,
    norms,
    products,
    recurrent,
    reductions,
    whole_models,
)
from .models import example_of, half_of
from .outcome import Alarm, Outcome, alarm_of, worst_of
from .rewriting import REWRITINGS, Candidate, Direction, Example, Rewriting

TABLES = (
    products,
    convolutions,
    attention,
    norms,
    activations,
    reductions,
    recurrent,
    folding,
    whole_models,
    arithmetic,
)
"""Importing them fills the table of rewritings."""
COMPARE: dict[Direction, Callable[..., Report]] = {
    "forward": torchport.compare_models,
    "backward": torchport.compare_gradients,
}


def outcomes(name: str, kinds: Iterable[str]) -> Iterator[Outcome]:
    """Every rewriting of one model that it has a part for, in both directions."""
    example = example_of(name)
    for kind in kinds:
        rewriting = REWRITINGS[kind]
        if rewriting.models is None or name in rewriting.models:
            for direction in rewriting.directions:
                outcome = compared(example, rewriting, direction)
                if outcome is not None:
                    yield outcome


def compared(example: Example, rewriting: Rewriting, direction: Direction) -> Outcome | None:
    """The verdict on a rewriting; None if no value passes through what it would rewrite."""
    start = time.perf_counter()
    with torch.no_grad():
        candidate = rewriting.build(example)
        if candidate is None:
            return None
        if not (calls := _calls(example, candidate)) or _overflows(example, rewriting, candidate):
            return None
    function = COMPARE[direction]
    told = _declaration(function, rewriting)
    status, count = "error", 0
    alarm: Alarm | None = None
    worst: tuple[float, str | None, str | None] = (0.0, None, None)
    try:
        report = function(
            candidate.reference or example.model,
            candidate.model,
            example.args,
            example.kwargs,
            map=candidate.left_out or None,
            explain=False,
            **told,
        )
        status, count, alarm, worst = report.status, report.compared, alarm_of(report), worst_of(report)
    except TorchportError as error:
        alarm = Alarm(None, None, error.code, f"{error.code}: {error.message}")
    except Exception as error:  # A crash is no verdict, and the others are compared all the same.
        alarm = Alarm(None, None, "crash", f"{type(error).__name__}: {error}")
    return Outcome(
        rewriting.kind,
        example.name,
        half_of(example.name),
        direction,
        rewriting.arithmetic,
        bool(told),
        calls,
        status,
        count,
        *worst,
        alarm,
        round(time.perf_counter() - start, 2),
    )


def _calls(example: Example, candidate: Candidate) -> int:
    """How many calls of a forward pass go through what was rewritten."""
    if candidate.calls():
        return candidate.calls()
    example.run(candidate.model)
    return candidate.calls()


def _overflows(example: Example, rewriting: Rewriting, candidate: Candidate) -> bool:
    """Whether the model has numbers that float16 cannot hold, so that nobody would run it so."""
    if not rewriting.arithmetic.startswith("fp16"):
        return False
    leaves = pytree.tree_leaves(example.run(candidate.model))
    return not all(leaf.isfinite().all() for leaf in leaves if isinstance(leaf, torch.Tensor))


def _declaration(function: Callable[..., Any], rewriting: Rewriting) -> dict[str, str]:
    """The arithmetic as an argument, if a comparison can be told."""
    return (
        {"arithmetic": rewriting.arithmetic} if "arithmetic" in inspect.signature(function).parameters else {}
    )
