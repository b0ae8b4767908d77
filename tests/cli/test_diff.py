"""`torchport diff`: what it prints, how it exits, and that its page in the documentation is true."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from torchport.diff.result import Difference

from .conftest import Answer

Torchport = Callable[..., Answer]
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "diff.md"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    golden = {"fc.weight": torch.ones(4, 3), "fc.bias": torch.zeros(4)}
    save_file(golden, "a.safetensors")
    save_file(golden, "same.safetensors")
    save_file(golden | {"fc.weight": golden["fc.weight"] + torch.eye(4, 3) / 4}, "wrong.safetensors")
    save_file({f"model.{name}": tensor for name, tensor in golden.items()}, "prefixed.safetensors")
    return tmp_path


def test_same_files_exit_with_0(torchport: Torchport, files: Path) -> None:
    answer = torchport("diff", "a.safetensors", "same.safetensors")
    assert answer.code == 0 and answer.stderr == ""
    assert answer.stdout.startswith("SAME  2 tensors identical\n")


def test_different_files_exit_with_1_and_show_the_first_and_the_worst(
    torchport: Torchport, files: Path
) -> None:
    answer = torchport("diff", "a.safetensors", "wrong.safetensors")
    assert answer.code == 1
    assert answer.stdout.startswith("DIFFERENT  1 of 2 tensors differ, 1 identical (assert_close by dtype)\n")
    assert "fc.weight  in the order of A" in answer.stdout
    assert "max 0.25 at [0, 0]" in answer.stdout
    assert re.search(r"DIFF +fc\.weight +0\.25 +0\.12 +0\.99\d+ +25\.0 % +\[4, 3\] float32", answer.stdout)
    assert "fc.bias" not in answer.stdout


def test_all_shows_every_tensor_in_order(torchport: Torchport, files: Path) -> None:
    answer = torchport("diff", "a.safetensors", "wrong.safetensors", "--all")
    assert re.search(r"same +fc\.bias .*\n", answer.stdout)


def test_a_tolerance_given_is_the_rule(torchport: Torchport, files: Path) -> None:
    answer = torchport("diff", "a.safetensors", "wrong.safetensors", "--atol", "0.3")
    assert answer.code == 0
    assert answer.stdout.startswith("SAME  1 within tolerance, 1 identical (rtol 0, atol 0.3)\n")


def test_json_is_one_object_on_stdout_with_everything(torchport: Torchport, files: Path) -> None:
    answer = torchport("diff", "a.safetensors", "wrong.safetensors", "--json", "--ignore", "nothing")
    assert answer.code == 1
    found = Difference.model_validate_json(answer.stdout)
    assert found.a.files == ("a.safetensors",) and len(found.entries) == 2
    assert json.loads(answer.stdout)["schema"] == 1
    assert answer.stderr == "warning: --ignore 'nothing' matches no name\n"


def test_map_may_be_given_several_times(torchport: Torchport, files: Path) -> None:
    rules = ("--map", r"^model\.=x.", "--map", r"^x\.=")
    assert torchport("diff", "a.safetensors", "prefixed.safetensors", *rules).code == 0


def test_names_of_one_side_are_listed(torchport: Torchport, files: Path) -> None:
    save_file({"fc.bias": torch.zeros(4), "new": torch.ones(1)}, "other.safetensors")
    answer = torchport("diff", "a.safetensors", "other.safetensors")
    assert answer.code == 1
    assert "Only in A: 1\n  fc.weight\n" in answer.stdout and "Only in B: 1\n  new\n" in answer.stdout
    options = ("--ignore", "weight", "--ignore", "new")
    assert torchport("diff", "a.safetensors", "other.safetensors", *options).code == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("a.safetensors", "gone.safetensors"), "TP0322"),
        (("a.safetensors", "prefixed.safetensors"), "TP0342"),
        (("a.safetensors", "same.safetensors", "--map", "no-equals"), "TP0801"),
        (("a.safetensors", "same.safetensors", "--map", "(=x"), "TP0801"),
        (("a.safetensors", "same.safetensors", "--ignore", "["), "TP0801"),
        (("a.safetensors", "same.safetensors", "--only", "*"), "TP0801"),
        (("a.safetensors", "same.safetensors", "--rtol", "-1"), "TP0801"),
        (("a.safetensors", "same.safetensors", "--atol", "nan"), "TP0801"),
        (("a.safetensors",), "TP0801"),
    ],
)
def test_what_cannot_be_done_exits_with_2_a_code_and_the_next_step(
    torchport: Torchport, files: Path, arguments: tuple[str, ...], code: str
) -> None:
    answer = torchport("diff", *arguments)
    assert answer.code == 2 and answer.stdout == ""
    assert answer.stderr.startswith(f"error {code}: ")
    assert "  next:  " in answer.stderr and "Traceback" not in answer.stderr
    as_json = torchport("diff", *arguments, "--json")
    assert as_json.code == 2 and json.loads(as_json.stdout)["error"]["code"] == code


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
def test_the_page_on_diff_shows_what_its_commands_print(tmp_path: Path) -> None:
    """Each command of the page is run in its place; the text after it is all that it prints."""
    make, use = blocks("python")
    (tmp_path / "make.py").write_text(make)
    assert run([sys.executable, "make.py"], tmp_path).returncode == 0
    shown = re.findall(
        r"^```sh\n(.*?)\n```\n\n```text\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(shown) >= 4
    for command, text in shown:
        done = run(shlex.split(command), tmp_path)
        printed = [line.rstrip() for line in (done.stderr + done.stdout).splitlines()]
        assert printed == text.splitlines(), command
        verdict = re.search(r"^(SAME|DIFFERENT|error) ", text, re.MULTILINE)
        assert verdict and done.returncode == {"SAME": 0, "DIFFERENT": 1, "error": 2}[verdict[1]]
    (tmp_path / "use.py").write_text(use)
    done = run([sys.executable, "use.py"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(line.partition("# ")[2] + "\n" for line in use.splitlines() if "# " in line)
