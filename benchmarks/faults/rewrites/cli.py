"""Compares every rewrite with its reference, and counts by kind what the reports say."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer

from torchport import compare_gradients, compare_models
from torchport.files import write_atomically
from torchport.runs.report import Report

from .convnet import CONVNET
from .crossed import CROSSED
from .decoder import DECODER
from .encoder import ENCODER
from .kinds import KINDS
from .layer import Fault, Subject
from .whole_layers import WHOLE_LAYERS

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
SUBJECTS = {subject.name: subject for subject in (ENCODER, DECODER, CONVNET, CROSSED, *WHOLE_LAYERS)}
COMPARE: dict[str, Callable[..., Report]] = {"values": compare_models, "gradients": compare_gradients}


@dataclass(frozen=True)
class Outcome:
    kind: str
    model: str
    held_out: bool
    compared: str
    """Values or gradients."""
    layer: str
    blamed: str | None
    detected: bool
    right_layer: bool
    operation: str | None
    right_operation: bool
    wrong_operation: bool
    """Another operation is named than one that is at fault."""
    cause: str | None
    text: str | None
    right_cause: bool
    wrong_cause: bool
    seconds: float


def outcome(subject: Subject, fault: Fault, compared: str) -> Outcome:
    """Puts a fault into a copy of a model and compares the two."""
    torch.manual_seed(0)
    model = subject.model()
    candidate = copy.deepcopy(model)
    fault.spoil(candidate)
    start = time.perf_counter()
    report = COMPARE[compared](model, candidate, subject.inputs())
    found, seconds = report.first_divergence, time.perf_counter() - start
    operation = found.operation.op.split(".")[1] if found and found.operation else None
    first = found.suggestions[0] if found and found.suggestions else None
    blamed = None if found is None else found.layer
    is_right = operation in fault.operations or (operation is None and not fault.operations)
    return Outcome(
        kind=fault.kind,
        model=subject.name,
        held_out=subject.held_out,
        compared=compared,
        layer=fault.layer,
        blamed=blamed,
        detected=not report.passed,
        right_layer=blamed is not None and _is_at(fault.layer or type(model).__name__, blamed),
        operation=operation,
        right_operation=is_right,
        wrong_operation=operation is not None and not is_right,
        cause=first.kind if first else None,
        text=first.text if first else None,
        right_cause=first is not None and first.kind in KINDS[fault.kind],
        wrong_cause=first is not None and first.kind not in KINDS[fault.kind],
        seconds=round(seconds, 2),
    )


def _is_at(layer: str, blamed: str) -> bool:
    """A parameter of the layer counts as the layer."""
    name = blamed.partition("#")[0]
    return name == layer or name.rpartition(".")[0] == layer


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes by kind, as Markdown; each number is of the models written for, then of those held out."""
    heads = ["fault", "planted", "detected", "right layer", "right operation", "right cause", "wrong cause"]
    rows = [_row(kind, [one for one in outcomes if one.kind == kind]) for kind in KINDS]
    rows = [*(row for row in rows if row), _row("**all**", outcomes)]
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = [heads, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines
    )


def _row(title: str, outcomes: Sequence[Outcome]) -> list[str]:
    if not outcomes:
        return []
    halves = [[one for one in outcomes if one.held_out == held_out] for held_out in (False, True)]
    flags = ("detected", "right_layer", "right_operation", "right_cause", "wrong_cause")
    cells = [" + ".join(str(_count(half, flag)) for half in halves) for flag in flags]
    return [title, " + ".join(str(len(half)) for half in halves), *cells]


def _count(outcomes: Iterable[Outcome], flag: str) -> int:
    return sum(getattr(one, flag) for one in outcomes)


@app.command()
def main(
    kind: Annotated[list[str] | None, typer.Option(help="Only this kind of fault; may be repeated.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="Only this model; may be repeated.")] = None,
    compared: Annotated[list[str] | None, typer.Option(help="Only `values` or `gradients`.")] = None,
    json_: Annotated[Path | None, typer.Option("--json", help="Write every outcome to this file.")] = None,
) -> None:
    """Plants faults in rewrites and counts what is found."""
    outcomes: list[Outcome] = []
    for name in model or SUBJECTS:
        for fault in SUBJECTS[name].faults:
            for how in compared or COMPARE:
                if not kind or fault.kind in kind:
                    outcomes.append(outcome(SUBJECTS[name], fault, how))
                    print(_line(outcomes[-1]), flush=True)
    print(table(outcomes))
    if json_ is not None:
        write_atomically(json_, json.dumps([asdict(one) for one in outcomes], indent=1))


def _line(one: Outcome) -> str:
    marks = "".join(
        letter if getattr(one, flag) else "."
        for letter, flag in (
            ("d", "detected"),
            ("l", "right_layer"),
            ("o", "right_operation"),
            ("c", "right_cause"),
        )
    )
    where = f"{one.blamed}: {one.operation}, {one.cause}: {one.text}"
    return f"{marks} {one.model} {one.compared} {one.kind} at {one.layer or 'the model'}: {where} ({one.seconds} s)"
