"""`torchport todos`: the markers in code that was generated for a real model, and what is said of other files."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import torchport as api
from torchport.cli import main
from torchport.porting.commands import codegen

from ..capture import models

pytestmark = pytest.mark.slow


class Unmapped(nn.Module):
    """Operations that nothing maps, one of them twice on a line."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.special.airy_ai(x) + torch.special.airy_ai(x + 1)
        return self.head(y), torch.special.hermite_polynomial_h(x, 2)


def generated(model: nn.Module, folder: Path, *inputs: torch.Tensor) -> Path:
    api.record(model.eval(), inputs, name="net").save(folder, "net")
    file = folder / "net.rs"
    codegen(folder / "net_manifest.json", out=file, model=None, analyze_only=False, options={})
    return file


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generated(Unmapped(), tmp_path_factory.mktemp("todos"), torch.randn(2, 6))


def listed(capsys: pytest.CaptureFixture[str], file: Path, *more: str) -> tuple[int, dict]:
    code = main(["todos", "--file", str(file), "--json", *more])
    return code, json.loads(capsys.readouterr().out)


def test_every_marker_is_listed_with_its_place_and_a_suggestion(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = listed(capsys, file)
    assert code == 0 and found["todos"] == 3 and list(found["by_type"]) == ["operation"]
    markers = found["by_type"]["operation"]
    assert [one["op"] for one in markers] == [
        *["aten.special_airy_ai.default"] * 2,
        "aten.special_hermite_polynomial_h.n_scalar",
    ]
    lines = file.read_text().splitlines()
    for one in markers:
        assert one["module"] == "Unmapped" and Path(one["source"].rpartition(":")[0]) == Path(__file__)
        assert f"TODO(torchport): {one['op']}" in lines[one["line"] - 1]
        assert one["reason"] and "operation table" in one["suggestion"]


def test_check_exits_with_1_while_any_remains(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert listed(capsys, file, "--check")[0] == 1
    done = tmp_path / "net.rs"
    text = "\n".join(line for line in file.read_text().splitlines() if "TODO(torchport)" not in line)
    done.write_text(text)
    code, found = listed(capsys, done, "--check")
    assert code == 1 and found["todos"] == 3, "the calls that stop the program are still there"
    done.write_text(text.replace("torchport_runtime::todo", "written"))
    code, found = listed(capsys, done, "--check")
    assert code == 0, found


def test_the_text_names_file_line_operation_and_what_to_do(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["todos", "--file", str(file)]) == 0
    text = capsys.readouterr().out
    assert (
        "operation: 3" in text and f"{file}:" in text and "aten.special_airy_ai.default in Unmapped" in text
    )


def test_code_without_markers_has_nothing_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = generated(nn.Sequential(nn.Linear(3, 3)), tmp_path, torch.randn(1, 3))
    assert listed(capsys, file, "--check") == (0, {"schema": 1, "file": str(file), "todos": 0, "by_type": {}})
    assert main(["todos", "--file", str(file)]) == 0
    assert "nothing is left to do" in capsys.readouterr().out


def test_what_torch_cannot_follow_is_a_type_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = generated(models.Gated(), tmp_path, torch.randn(2, 4))
    _, found = listed(capsys, file)
    assert "torch.export can follow" in found["by_type"]["unknown"][0]["suggestion"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("main.rs", b"fn main() {}\n"),
        ("model.py", b"# TODO(torchport): mine\n"),
        ("file.rs", b"\xff\xfe\x00"),
    ],
)
def test_a_file_that_is_not_ours_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    assert main(["todos", "--file", str(tmp_path / name), "--check"]) == 2
    said = capsys.readouterr().err
    assert "TP0407" in said and name in said


def test_a_file_that_is_not_there_or_is_a_folder_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path / "none.rs", tmp_path):
        assert main(["todos", "--file", str(path)]) == 2
        assert "TP0407" in capsys.readouterr().err
