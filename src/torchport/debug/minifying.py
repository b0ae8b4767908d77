"""From a debugging run that failed to the least that still does: what `torchport minify` does with one.

A run of a SPEC is made again, graph by graph. Without one, a script that the run has kept is reduced.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torchport.capture.spec import Subject, load_spec
from torchport.debug.commands import constraints_of
from torchport.debug.constraints.base import Violation
from torchport.debug.folders import newest_run
from torchport.debug.minifier.captured import graphs_of
from torchport.debug.minifier.minifier import Minifier
from torchport.debug.minifier.result import MinifiedGraph
from torchport.debug.minifier.runs import SMALLEST, minify_graph_run, minify_model
from torchport.debug.report import DebugReport
from torchport.errors import CompileError, ReportError

Say = Callable[[str], None]


def minify_debug_run(target: Path, say: Say) -> MinifiedGraph:
    """Reduces what failed in a run, or in a script that torchport wrote; ReportError if nothing did."""
    if target.is_file():
        return minify_graph_run(target, say=say)
    folder = newest_run(target)
    report = DebugReport.read(folder.report)
    if report.status == "pass":
        raise ReportError("TP0343", f"nothing failed in {folder.path}, so there is nothing to reduce")
    if report.spec is None:
        return minify_graph_run(folder.path, say=say)
    subject, out = load_spec(report.spec), folder.path / "repros" / f"{SMALLEST}{report.model}.py"
    is_wrong = bool(report.failures) or report.summary.kernel_diff_passed is False
    if is_wrong or not report.constraints.violations:
        return minify_model(*subject, backend=_backend(report.backend), out=out, say=say)
    return _minify_violation(subject, report, report.constraints.violations[0], out, say)


def _backend(name: str) -> str:
    """As torch.compile knows it: adapters are registered under longer names."""
    from torchport.debug.adapters.registry import available_adapters

    is_adapter = name in {one.name for one in available_adapters()}
    return f"torchport_{name}" if is_adapter or name == "mock" else name


def _minify_violation(
    subject: Subject, report: DebugReport, violation: Violation, out: Path, say: Say
) -> MinifiedGraph:
    constraints = constraints_of(**report.options)
    for case in graphs_of(*subject):
        minifier = Minifier(case.module, case.inputs, violation, constraints=constraints, say=say)
        try:
            return minifier.generate_repro_script(out)
        except CompileError as error:
            if error.code not in ("TP1046", "TP1047"):
                raise
    raise CompileError("TP1046", f"no graph of {report.model} violates {violation.constraint} by itself")
