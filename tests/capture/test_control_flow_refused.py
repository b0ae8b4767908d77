"""Control flow that cannot be read, in a model or in a manifest, is refused with what to do."""

import ast
import inspect
import json
import textwrap
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


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum().item() > 0:
            z = self.dense(y)
            x = z + 1
        else:
            z = x - 1
        return z * x


class Counts(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        steps = 0
        while x.abs().max() > 0.25:
            x = x / 2
            steps += 1
        return x, torch.as_tensor(steps)


REWRITTEN = (Decides, Otherwise, Chooses, Repeats, Branches, Counts)


def rewritten(model: type[nn.Module], advice: str, folder: Path) -> type[nn.Module]:
    """The class with the advice in the place of the statement that it is for."""
    own = textwrap.dedent(inspect.getsource(model))
    (decision,) = [
        node for node in ast.walk(ast.parse(own)) if isinstance(node, ast.If | ast.IfExp | ast.While)
    ][-1:]
    lines = own.splitlines()
    if isinstance(decision, ast.IfExp):
        text = lines[decision.lineno - 1]
        new = [text[: decision.col_offset] + advice.strip() + text[decision.end_col_offset :]]
        first, last = decision.lineno, decision.lineno
    else:
        first, last = decision.lineno, decision.end_lineno or 0
        new = textwrap.indent(textwrap.dedent(advice), " " * decision.col_offset).splitlines()
        if lines[first - 1].strip().startswith("elif"):
            new = [" " * decision.col_offset + "else:", *textwrap.indent("\n".join(new), "    ").splitlines()]
    path = folder / f"{model.__name__}.py"
    head = ["import torch", "from torch import nn", ""]
    path.write_text("\n".join([*head, *lines[: first - 1], *new, *lines[last:]]))
    found: dict[str, Any] = {}
    exec(compile(path.read_text(), path, "exec"), found)
    made: type[nn.Module] = found[model.__name__]
    return made


@pytest.mark.parametrize("model", REWRITTEN)
def test_python_that_decides_by_values_is_told_what_to_write(model: type[nn.Module], tmp_path: Path) -> None:
    original = models.seeded(model)
    error = record(original, (ROWS,)).export_error
    assert error is not None and error.where is not None and error.fix is not None
    assert error.where.startswith(f"{__file__}:") and "decides by the value of a tensor" in error.message
    after = models.seeded(rewritten(model, error.fix.partition("TODOs:\n")[2], tmp_path))
    assert record(after, (ROWS,)).export_error is None
    for x in (ROWS, -ROWS, 30 * ROWS):
        torch.testing.assert_close(after(x), original(x))


class Leaves(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            if x.sum() > 1000:
                break
            x = x * 2
        return x


def test_what_cannot_be_rewritten_is_told_what_would_do() -> None:
    error = record(Leaves(), (ROWS,)).export_error
    assert error is not None and error.fix is not None
    assert "`torch.cond(x.sum() > 1000, if_true, if_false, (…,))`" in error.fix


class BySize(nn.Module):
    """Branches that no value decides."""

    def __init__(self, doubled: bool, mode: str) -> None:
        super().__init__()
        self.doubled, self.mode = doubled, mode

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.doubled:
            x = x * 2
        if self.mode == "tanh":
            x = x.tanh()
        elif x.shape[-1] == 4:
            x = x.sigmoid()
        return x + 1 if x.ndim == 2 else x


@pytest.mark.parametrize("mode", ["tanh", "other"])
@pytest.mark.parametrize("doubled", [True, False])
def test_a_branch_on_a_shape_or_a_setting_needs_no_rewrite(doubled: bool, mode: str) -> None:
    capture = record(BySize(doubled, mode), (ROWS,))
    assert capture.export_error is None and [s.axis for s in capture.graph.symbols] == [0]
    operations = [node.op for node in capture.graph.root.nodes]
    assert ("aten.mul.Tensor" in operations) == doubled and ("aten.tanh.default" in operations) == (
        mode == "tanh"
    )
