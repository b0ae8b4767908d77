"""Control flow that cannot be read, in a model or in a manifest, is refused with what to do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops import while_loop

from torchport.capture.manifest import read_manifest, write_manifest
from torchport.capture.recorder import record
from torchport.errors import ManifestError

from . import control_flow_models as models

pytestmark = pytest.mark.slow

ROWS = torch.rand(5, 4)


def test_what_is_carried_must_be_a_tensor() -> None:
    class Number(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (0, x))[1]

    error = record(Number(), (ROWS,)).export_error
    assert error is not None and error.code == "TP0202"


def broken(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    path = tmp_path / "m.json"
    write_manifest(path, record(models.seeded(models.Counted), (ROWS,)).graph, extra={})
    data = json.loads(path.read_text())
    modules = {module["key"]: module for module in data["modules"]}
    change(modules)
    path.write_text(json.dumps(data))
    return path


def without_bodies(modules: dict[str, Any]) -> None:
    del modules["while_loop"]["nodes"][0]["bodies"]


def with_a_body_that_is_missing(modules: dict[str, Any]) -> None:
    modules["while_loop"]["nodes"][0]["bodies"]["body"] = "elsewhere"


def with_a_body_that_runs_itself(modules: dict[str, Any]) -> None:
    modules["while_loop.body"]["nodes"][-1] |= {
        "op": "torchport.while_loop.default",
        "args": [[{"ref": "input_0"}, {"ref": "input_1"}], []],
        "bodies": {"condition": "while_loop.condition", "body": "while_loop.body"},
    }


def with_a_body_of_other_operands(modules: dict[str, Any]) -> None:
    modules["while_loop"]["nodes"][0]["bodies"]["body"] = "while_loop.condition"


def with_bodies_of_something_else(modules: dict[str, Any]) -> None:
    modules["while_loop.body"]["nodes"][0]["bodies"] = {"true": "while_loop.condition"}


@pytest.mark.parametrize(
    "change",
    [
        without_bodies,
        with_a_body_that_is_missing,
        with_a_body_that_runs_itself,
        with_a_body_of_other_operands,
        with_bodies_of_something_else,
    ],
)
def test_a_manifest_whose_bodies_do_not_fit_is_refused(
    change: Callable[[dict[str, Any]], None], tmp_path: Path
) -> None:
    with pytest.raises(ManifestError, match="TP0305"):
        read_manifest(broken(tmp_path, change))


class Decides(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x * 2
        return x * 3


class Otherwise(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 99:
            x = x + 1
        elif x.mean() < 0:
            x = x * 2
        return x * 3


class Chooses(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if bool(x.max() > 9) else x * 3


class Repeats(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while x.sum() > 1:
            x = x / 2
        return x


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        (Decides, "torch.where or `torch.cond(x.sum() > 0, if_true, if_false, (…,))` there"),
        (Otherwise, "`torch.cond(x.mean() < 0, if_true, if_false, (…,))`"),
        (Chooses, "`torch.cond(bool(x.max() > 9), if_true, if_false, (…,))`"),
        (Repeats, "`while_loop(lambda …: x.sum() > 1, body, (…,))`"),
    ],
)
def test_python_that_decides_by_values_is_told_what_to_write(model: type[nn.Module], advice: str) -> None:
    error = record(model(), (ROWS,)).export_error
    assert error is not None and error.where is not None and error.fix is not None
    assert error.where.startswith(f"{__file__}:") and "decides by the value of a tensor" in error.message
    assert advice in error.fix
