"""Port a PyTorch model somewhere else, and prove the port."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchport.capture.recorder import Capture, GoldenRecorder, record
    from torchport.errors import TorchportError
    from torchport.port import Port, port
    from torchport.report.model import Report

__version__ = "0.1.0"
__all__ = ["Capture", "GoldenRecorder", "Port", "Report", "TorchportError", "port", "record"]

_HOMES = {
    "Capture": "torchport.capture.recorder",
    "GoldenRecorder": "torchport.capture.recorder",
    "record": "torchport.capture.recorder",
    "TorchportError": "torchport.errors",
    "Port": "torchport.port",
    "port": "torchport.port",
    "Report": "torchport.report.model",
}


def __getattr__(name: str) -> Any:
    """Loads what is asked for, and torch with it, only then: `torchport --help` must not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        """Keeps `torchport.port` the function: an import of the module of that name would replace it."""
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
