"""What torch.compile made of a function: graphs, breaks, guards, recompilations, and why."""

from torchport.debug.guards.inspector import Call, GuardInspector, Watch
from torchport.debug.guards.model import (
    Compilation,
    FailedGuard,
    Failure,
    GraphBreak,
    Guard,
    GuardReport,
    Place,
    Recompilation,
    RecompileLimit,
    SkippedFrame,
)

__all__ = [
    "Call",
    "Compilation",
    "FailedGuard",
    "Failure",
    "GraphBreak",
    "Guard",
    "GuardInspector",
    "GuardReport",
    "Place",
    "Recompilation",
    "RecompileLimit",
    "SkippedFrame",
    "Watch",
]
