"""A report on a debugging run, made by hand, in a folder of its own."""

from __future__ import annotations

from pathlib import Path

from torchport.debug.constraints.base import Violation
from torchport.debug.folders import REPORT, new_tree
from torchport.debug.report import (
    ConstraintSection,
    Culprit,
    DebugReport,
    GraphInfo,
    KernelDiffSection,
    Summary,
)

LINE = f"{Path(__file__)}:20"
GUARDS = {
    "breaks": [{"reason": "call to print", "source": LINE, "code": "print(x)", "advice": "leave it out"}],
    "recompilations": [{"graph": "0/1", "reason": "size mismatch at index 0", "advice": None}],
    "graphs": [{"name": "0/0", "guards": [{"kind": "TENSOR_MATCH", "on": "L['x']", "code": "check_tensor"}]}],
}


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
