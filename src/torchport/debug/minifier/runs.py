"""What the command line asks for: a failing graph of a run, of a script or of a model, minified."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from torchport.debug.constraints.base import Constraint, Violation
from torchport.debug.minifier import failure as failures
from torchport.debug.minifier.captured import Captured, graphs_of
from torchport.debug.minifier.case import case_of
from torchport.debug.minifier.checks import Backend, BackendCheck, ConstraintCheck
from torchport.debug.minifier.child import can_fork
from torchport.debug.minifier.failure import Failure
from torchport.debug.minifier.laboratory import Laboratory
from torchport.debug.minifier.minifier import LIMIT, Minifier
from torchport.debug.minifier.reading import read_script
from torchport.debug.minifier.result import MinifiedGraph
from torchport.debug.minifier.script import Script
from torchport.errors import CompileError
from torchport.explain.repro import counted

REPROS = "repros"
SMALLEST = "smallest_"
"""What the name of a minified script begins with."""
Say = Callable[[str], None]


def write_graph_script(
    path: Path,
    gm: torch.fx.GraphModule,
    inputs: Sequence[Any],
    error: BaseException | Failure | Violation,
    *,
    backend: Backend = "eager",
    constraints: Sequence[Constraint] = (),
) -> None:
    """Writes the script of a whole graph that fails, which a run keeps in `repros`: it is minified from there."""
    case = case_of(gm, inputs)
    if isinstance(error, Violation):
        check = ConstraintCheck(tuple(constraints), error.stage)
        Script(case, failures.of_violation(error), check).write(path)
    else:
        failure = error if isinstance(error, Failure) else failures.of_exception(error)
        Script(case, failure, BackendCheck(backend, failure.kind)).write(path)


def minify_graph_run(
    target: Path,
    *,
    backend: Backend | None = None,
    constraints: Sequence[Constraint] = (),
    out: Path | None = None,
    limit: float = LIMIT,
    say: Say = lambda text: None,
) -> MinifiedGraph:
    """Minifies a script that torchport has written, or the first in the folder of a debugging run.

    The backend, or the constraints, are those of the script if none are given; Inductor if it has neither. The smallest
    script is written to `out`, by default beside the one that it is made from.
    """
    script = _script(target)
    read = read_script(script)
    held = tuple(constraints) or (() if read.constraint is None or backend else (read.constraint,))
    minifier = Minifier(
        read.module,
        read.inputs,
        _expected(read.kind),
        None if held else backend or read.backend or "inductor",
        held,
        limit,
        read.through_dynamo or backend is not None,
        read.setup,
        say=say,
    )
    return minifier.generate_repro_script(out or script.with_name(f"{SMALLEST}{script.name}"))


def minify_model(
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    backend: Backend = "inductor",
    out: Path,
    limit: float = LIMIT,
    say: Say = lambda text: None,
) -> MinifiedGraph:
    """Minifies the first graph of a model that fails with a backend. CompileError if none does."""
    graphs = [Captured(case, backend) for case in graphs_of(model, args, kwargs or {})]
    return minify_first(graphs, out=out, limit=limit, say=say)


def minify_first(
    graphs: Sequence[Captured], *, out: Path, limit: float = LIMIT, say: Say = lambda text: None
) -> MinifiedGraph:
    """Minifies the first graph that fails with its backend. CompileError if none does."""
    for one in graphs:
        case, backend = one.case, one.backend
        say(f"looking at a graph of {counted(len(case.operations), 'operation')}")
        found = Laboratory(BackendCheck(backend), limit, can_fork(case.inputs)).failure_of(case)
        if found is not None:
            minifier = Minifier(case.module, case.inputs, found, backend, limit=limit, say=say)
            return minifier.generate_repro_script(out)
    raise CompileError("TP1046", f"{counted(len(graphs), 'graph')} looked at, and none fails by itself")


def has_scripts(folder: Path) -> bool:
    """Whether a run has kept a script of a whole graph."""
    return bool(_whole_graphs(folder))


def _whole_graphs(folder: Path) -> list[Path]:
    scripts = sorted(folder.glob(f"{REPROS}/*.py"))
    return [path for path in scripts if not path.name.startswith(SMALLEST)]


def _script(target: Path) -> Path:
    if target.is_file():
        return target
    whole = _whole_graphs(target)
    if not whole:
        raise CompileError("TP1048", f"{target} has no script of a graph that fails", where=str(target))
    return whole[0]


def _expected(kind: str | None) -> Failure | None:
    """A hang must be asked for; anything else is seen when the graph is run."""
    return Failure("hang", "", "") if kind == "hang" else None
