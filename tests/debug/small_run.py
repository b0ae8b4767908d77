"""A debugging run that takes little: a small model, and a backend of which one operation is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torchport.debug import DebugOptions, DebugReport, debug_run

MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x):
        y = self.fc(x)
        print("between")
        return y.relu()


def build():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(2, 6),)
"""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.act = nn.Linear(6, 6), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.fc(x))


def run(root: Path, model: nn.Module | None = None, **options: Any) -> DebugReport:
    chosen = DebugOptions(**{"backend": "mock", "gradients": False, **options})
    return debug_run(model or Net().eval(), (torch.randn(2, 6),), root=root, options=chosen)


def wrong_relu(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """A backend of which one operation is a little off."""

    class Runs(torch.fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            found = super().call_function(target, args, kwargs)
            return found * 1.001 if "relu" in str(target) else found

    return Runs(module).run
