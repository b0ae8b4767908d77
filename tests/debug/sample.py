"""A report on a debugging run, made by hand, in a folder of its own."""

from __future__ import annotations

from pathlib import Path

from torchport.debug.constraints.base import Violation
from torchport.debug.folders import REPORT, new_tree
from torchport.debug.guards.model import (
    Compilation,
    FailedGuard,
    GraphBreak,
    Guard,
    GuardReport,
    Place,
    Reason,
    Recompilation,
)
from torchport.debug.report import (
    ConstraintSection,
    Culprit,
    DebugReport,
    GraphInfo,
    KernelDiffSection,
    Summary,
)

LINE = f"{Path(__file__)}:20"
_PLACE = Place(file=str(Path(__file__)), line=20, function="forward", code="print(x)")
GUARDS = GuardReport(
    subject="MyNet",
    torch_version="2.14.1",
    compilations=(
        Compilation(
            compile_id="0/0",
            function=_PLACE,
            outcome="compiled",
            has_graph=True,
            guards=(Guard(source="L['x']", kind="TENSOR_MATCH", code=("check_tensor",)),),
        ),
    ),
    breaks=(
        GraphBreak(
            place=_PLACE,
            reason=Reason(title="call to print"),
            effect="splits the graph",
            stack=(_PLACE,),
            compile_ids=("0/0",),
            advice="leave it out",
        ),
    ),
    recompilations=(
        Recompilation(
            compile_id="0/1",
            function=_PLACE,
            failed_guards=(FailedGuard(graph="0/0", reason="size mismatch at index 0"),),
        ),
    ),
)


def violation(constraint: str = "shape", message: str = "10 is no multiple of 8") -> Violation:
    return Violation(
        constraint, message, "pad it", "graph_0", "forward", "addmm", "aten.addmm.default", "fc", LINE
    )


def failing(**changed: object) -> DebugReport:
    facts: dict[str, object] = {
        "status": "fail",
        "model": "MyNet",
        "backend": "torchport_inductor",
        "timestamp": "2026-01-02T03:04:05+00:00",
        "torch": "2.14.1",
        "summary": Summary(
            total_graphs=3,
            graph_breaks=1,
            recompilations=1,
            constraint_violations=2,
            kernel_diff_passed=False,
        ),
        "graphs": (GraphInfo(name="graph_0", stage="forward", operations=3, ops={"aten.addmm.default": 3}),),
        "guards": GUARDS,
        "constraints": ConstraintSection(
            checked=("shape", "dtype"), violations=(violation(), violation("dtype", "float64 is not allowed"))
        ),
        "kernel_diff": KernelDiffSection(
            verdict="fail",
            reference="eager",
            backend="torchport_inductor",
            compared=12,
            culprit=Culprit(
                layer="act", operation="aten.gelu.default", source=LINE, reason="120 noise floors"
            ),
        ),
    }
    return DebugReport(**{**facts, **changed})  # type: ignore[arg-type]


def passing(**changed: object) -> DebugReport:
    section = KernelDiffSection(verdict="pass", reference="eager", backend="inductor", compared=12)
    return failing(
        status="pass",
        summary=Summary(total_graphs=1, kernel_diff_passed=True),
        constraints=ConstraintSection(checked=("shape",)),
        kernel_diff=section,
        guards=None,
        **changed,
    )


def written(root: Path, report: DebugReport | None = None) -> Path:
    """The folder of a run that has come to its report."""
    tree = new_tree(root, "mynet inductor")
    tree.write("fx_graphs", "graph_0.py", "def forward(self, x):\n    return (x,)  # <b>\n", "graph")
    (report or failing(artifacts=tuple(tree.artifacts), folder=str(tree.path))).write(tree.path / REPORT)
    return tree.path
