"""False alarms: models without a fault must not fail. Also on other weights and inputs than those of the zoo."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils import _pytree as pytree

from torchport.errors import TorchportError
from torchport.porting.commands import port
from torchport.runs.report import Report
from torchport.targets.registry import DEFAULT

from .. import zoo
from .models import lively


@dataclass(frozen=True)
class Run:
    model: str
    again: bool
    """On other weights and inputs than the zoo's own."""
    status: str
    why: str | None
    nearest: float
    """How near the limit the worst layer came; above 1 fails."""
    seconds: float

    def __str__(self) -> str:
        name = f"{self.model} (again)" if self.again else self.model
        why = f"; {self.why}" if self.why else ""
        return f"{name}: {self.status}, nearest {self.nearest:.2f}, {self.seconds:.0f} s{why}"


def runs(names: list[str], folder: Path, target: str = DEFAULT) -> Iterator[Run]:
    """Every model as it is, then those that are proven once more with other numbers."""
    for again, some in ((False, names), (True, [name for name in names if name in zoo.PROVEN])):
        for name in some:
            yield _run(name, again, folder / name, target)


def _run(name: str, again: bool, folder: Path, target: str) -> Run:
    start = time.perf_counter()
    try:
        report = _check(name, again, folder, target)
        nearest = max((layer.own.ratio or 0.0 for layer in report.layers if layer.own), default=0.0)
        return Run(name, again, report.status, _why(report), nearest, time.perf_counter() - start)
    except (TorchportError, ImportError) as error:
        return Run(name, again, "error", str(error).splitlines()[0], 0.0, time.perf_counter() - start)
    finally:
        # A cargo project stays, so that it need not be built from the start the next time.
        shutil.rmtree(folder / "capture" if target == DEFAULT else folder, ignore_errors=True)


def _check(name: str, again: bool, folder: Path, target: str) -> Report:
    model, args, *rest = (lively(zoo.ZOO[name]) if again else zoo.ZOO[name])()
    if again:
        torch.manual_seed(2)
        args, rest = pytree.tree_map_only(torch.Tensor, other_values, (args, rest))
    return port(model, args, *rest, target=target, out=folder, name=name).check()


def other_values(tensor: torch.Tensor) -> torch.Tensor:
    """Numbers of the same kind and range; flags stay what they are."""
    if tensor.is_floating_point():
        return torch.randn_like(tensor) if tensor.ndim > 2 else tensor
    if tensor.dtype == torch.bool:
        return tensor
    return torch.randint_like(tensor, int(tensor.min()), int(tensor.max()) + 1)


def _why(report: Report) -> str | None:
    found = report.first_divergence
    if report.status == "unsupported":
        return "; ".join(f"{todo.op} in {todo.layer}: {todo.reason}" for todo in report.todos[:3])
    if found is None:
        return None
    noise = found.metrics.noise if found.metrics else None
    facts = f", {found.metrics.numel} elements, {noise}" if found.metrics and noise else ""
    return f"{found.layer} ({found.type}), {found.what}, {found.kind}: {found.reason}{facts}"
