"""From a debugging run that failed to the least that still does: what `torchport minify` does with one.

The SPEC or the script of a run is run again, and its graphs are looked at one by one. Without either, a script that the
run has kept is reduced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchport.capture.spec import load_named, load_spec
from torchport.debug.backends.choosing import chosen
from torchport.debug.commands import constraints_of
from torchport.debug.constraints.base import Constraint, Violation
from torchport.debug.folders import DebugFolder, newest_run
from torchport.debug.minifier.backend_text import BackendOfFile
from torchport.debug.minifier.captured import Captured, graphs_of, graphs_of_script
from torchport.debug.minifier.minifier import Minifier
from torchport.debug.minifier.result import MinifiedGraph
from torchport.debug.minifier.runs import SMALLEST, has_scripts, minify_first, minify_graph_run
from torchport.debug.report import DebugReport
from torchport.errors import CompileError, ReportError, Stopped

BREAKS_A_CONSTRAINT, DOES_NOT_FAIL, FAILS_OTHERWISE = "TP1001", "TP1046", "TP1047"
Say = Callable[[str], None]
Backend = str | Callable[..., Any]


def minify_debug_run(target: Path, say: Say) -> MinifiedGraph:
    """Reduces what failed in a run, or in a script that torchport wrote; ReportError if nothing did."""
    try:
        return minify_graph_run(target, say=say) if target.is_file() else _minify(newest_run(target), say)
    except KeyboardInterrupt as stop:
        raise Stopped(
            f"stopped: {target} is as it was, and no script was written; `torchport minify {target}` begins anew"
        ) from stop


def _minify(folder: DebugFolder, say: Say) -> MinifiedGraph:
    if not folder.report.exists() and has_scripts(folder.path):
        return minify_graph_run(folder.path, say=say)
    report = DebugReport.read(folder.report)
    if report.status == "pass":
        raise ReportError("TP0343", f"nothing failed in {folder.path}, so there is nothing to reduce")
    if report.spec is None:
        return minify_graph_run(folder.path, say=say)
    say(f"running {report.spec} again, for its graphs")
    graphs, out = _graphs(report), folder.path / "repros" / f"{SMALLEST}{report.model}.py"
    if _is_of_backend(report):
        return minify_first(graphs, out=out, say=say)
    return _minify_violation(graphs, report, report.constraints.violations[0], out, say)


def _is_of_backend(report: DebugReport) -> bool:
    """Whether a backend fails, and not only a graph that breaks a constraint, which a strict backend refuses."""
    failed = any(failure.code != BREAKS_A_CONSTRAINT for failure in report.failures)
    return failed or report.summary.kernel_diff_passed is False or not report.constraints.violations


def _graphs(report: DebugReport) -> Sequence[Captured]:
    """The graphs of a run, each with the backend that it is to be tried with."""
    assert report.spec is not None
    if not report.spec.endswith(".py"):
        backend = _backend(report.backend_given or report.backend)
        return [Captured(case, backend) for case in graphs_of(*load_spec(report.spec))]
    graphs = graphs_of_script(Path(report.spec), report.arguments)
    if report.backend_given is None:
        return graphs
    backend = _backend(report.backend_given)
    return [replace(one, backend=backend) for one in graphs]


def _backend(given: str) -> Backend:
    """As torch.compile takes it: adapters are registered under longer names."""
    from torchport.debug.adapters.registry import available_adapters

    if ":" in given:
        backend = chosen(given).plain
        return BackendOfFile(given, backend, is_made=not _is_alike(load_named(given), backend))
    is_adapter = given in {one.name for one in available_adapters()}
    return f"torchport_{given}" if is_adapter or given == "mock" else given


def _is_alike(named: Any, backend: Any) -> bool:
    """Whether what a file names is the backend itself; the file was read anew, so they are two objects in any case."""

    def names(one: Any) -> tuple[str, str | None]:
        return type(one).__qualname__, getattr(one, "__qualname__", None)

    return names(named) == names(backend)


def _constraints(report: DebugReport) -> list[Constraint]:
    """What graphs were held against: by the options of the run, and by the backend itself."""
    own = () if report.backend_given is None else chosen(report.backend_given).constraints
    return [*constraints_of(**report.options), *own]


def _minify_violation(
    graphs: Sequence[Captured], report: DebugReport, violation: Violation, out: Path, say: Say
) -> MinifiedGraph:
    constraints = _constraints(report)
    for one in graphs:
        minifier = Minifier(one.case.module, one.case.inputs, violation, constraints=constraints, say=say)
        try:
            return minifier.generate_repro_script(out)
        except CompileError as error:
            if error.code not in (DOES_NOT_FAIL, FAILS_OTHERWISE):
                raise
    raise CompileError(DOES_NOT_FAIL, f"no graph of {report.model} violates {violation.constraint} by itself")
