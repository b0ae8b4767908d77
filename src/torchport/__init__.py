"""Port a PyTorch model somewhere else, and prove the port."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchport.capture.recorder import Capture, GoldenRecorder, record
    from torchport.errors import TorchportError
    from torchport.porting.port import Port, port
    from torchport.runs.report import Report
    from torchport.testing import assert_parity, compare_gradients, compare_models

__version__ = "0.1.0"
__all__ = [
    "Capture",
    "GoldenRecorder",
    "Port",
    "Report",
    "TorchportError",
    "assert_parity",
    "compare_gradients",
    "compare_models",
    "port",
    "record",
]

_HOMES = {
    "Capture": "torchport.capture.recorder",
    "GoldenRecorder": "torchport.capture.recorder",
    "record": "torchport.capture.recorder",
    "TorchportError": "torchport.errors",
    "Port": "torchport.porting.port",
    "port": "torchport.porting.port",
    "Report": "torchport.runs.report",
    "assert_parity": "torchport.testing",
    "compare_gradients": "torchport.testing",
    "compare_models": "torchport.testing",
}


def __getattr__(name: str) -> Any:
    """Loads what is asked for, and torch with it, only then: `torchport --help` must not wait for torch."""
    if name == "candle":
        return import_module("torchport.candle")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
