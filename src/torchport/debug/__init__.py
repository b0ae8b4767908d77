"""Debugging torch.compile and accelerators: every graph, every constraint, the kernel that is wrong.

report = debug.debug_run(model, args, options=debug.DebugOptions(backend="inductor"))
torch.compile(model, backend=debug.aot_mock_backend(constraints=[debug.ShapeConstraint(alignment=8)]))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchport.debug.adapters.base import AcceleratorAdapter
    from torchport.debug.adapters.capabilities import AcceleratorCapabilities
    from torchport.debug.adapters.integrated import IntegratedMockAdapter
    from torchport.debug.adapters.mock import MockAcceleratorAdapter
    from torchport.debug.adapters.registry import available_adapters, find_adapter
    from torchport.debug.backends.inductor import InductorBackend
    from torchport.debug.backends.mock import aot_mock_backend, mock_backend
    from torchport.debug.backends.outside import outside_watched
    from torchport.debug.comparing import ComparisonConfig, compare_tensors
    from torchport.debug.constraints import (
        Constraint,
        DtypeConstraint,
        LayoutConstraint,
        MemoryConstraint,
        ShapeConstraint,
        UnsupportedOpsConstraint,
        Violation,
    )
    from torchport.debug.generate import ReportGenerator
    from torchport.debug.guards.inspector import GuardInspector
    from torchport.debug.kernel_diff.diff_report import DiffReport
    from torchport.debug.kernel_diff.harness import KernelDiffHarness
    from torchport.debug.minifier.minifier import Minifier
    from torchport.debug.report import DebugReport
    from torchport.debug.running import DebugOptions, debug_run
    from torchport.debug.scripts import debug_script
    from torchport.debug.session import Session
    from torchport.debug.tree import ArtifactTree

__all__ = [
    "AcceleratorAdapter",
    "AcceleratorCapabilities",
    "ArtifactTree",
    "ComparisonConfig",
    "Constraint",
    "DebugOptions",
    "DebugReport",
    "DiffReport",
    "DtypeConstraint",
    "GuardInspector",
    "InductorBackend",
    "IntegratedMockAdapter",
    "KernelDiffHarness",
    "LayoutConstraint",
    "MemoryConstraint",
    "Minifier",
    "MockAcceleratorAdapter",
    "ReportGenerator",
    "Session",
    "ShapeConstraint",
    "UnsupportedOpsConstraint",
    "Violation",
    "aot_mock_backend",
    "available_adapters",
    "compare_tensors",
    "debug_run",
    "debug_script",
    "find_adapter",
    "mock_backend",
    "outside_watched",
]

_HOMES = {
    "AcceleratorAdapter": "adapters.base",
    "AcceleratorCapabilities": "adapters.capabilities",
    "ArtifactTree": "tree",
    "ComparisonConfig": "comparing",
    "Constraint": "constraints",
    "DebugOptions": "running",
    "DebugReport": "report",
    "DiffReport": "kernel_diff.diff_report",
    "DtypeConstraint": "constraints",
    "GuardInspector": "guards.inspector",
    "InductorBackend": "backends.inductor",
    "IntegratedMockAdapter": "adapters.integrated",
    "KernelDiffHarness": "kernel_diff.harness",
    "LayoutConstraint": "constraints",
    "MemoryConstraint": "constraints",
    "Minifier": "minifier.minifier",
    "MockAcceleratorAdapter": "adapters.mock",
    "ReportGenerator": "generate",
    "Session": "session",
    "ShapeConstraint": "constraints",
    "UnsupportedOpsConstraint": "constraints",
    "Violation": "constraints",
    "aot_mock_backend": "backends.mock",
    "available_adapters": "adapters.registry",
    "compare_tensors": "comparing",
    "debug_run": "running",
    "debug_script": "scripts",
    "find_adapter": "adapters.registry",
    "mock_backend": "backends.mock",
    "outside_watched": "backends.outside",
}


def __getattr__(name: str) -> Any:
    """Loads what is asked for only then: a part of torch that has moved takes only what needs it along."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
