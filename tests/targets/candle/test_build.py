"""Building and running a project: what is shown meanwhile, and what a port that stops leaves behind."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import torch

from torchport.capture.recorder import record
from torchport.errors import BuildError
from torchport.targets.base import Artifact
from torchport.targets.candle.artifact import CONFIG, WEIGHTS
from torchport.targets.candle.build import build, find_cargo
from torchport.targets.candle.crate_count import CrateCount, count_crates, crates_in_tree
from torchport.targets.candle.options import CandleOptions
from torchport.targets.candle.project import write_project
from torchport.targets.candle.running import Files, read_stop, run, stop_file
from torchport.targets.candle.target import TARGET
from torchport.targets.candle.writer import generate

pytestmark = pytest.mark.builds

CARGO_OUTPUT = Path(__file__).parent / "cargo_output"
"""What cargo 1.95 wrote about a crate with a path dependency, build scripts and a macro crate."""


def shown(lines: list[str], total: int | None) -> list[str]:
    crates = CrateCount(lambda: total)
    return [message for line in lines if (message := crates.message(line)) is not None]


def output(name: str) -> list[str]:
    return (CARGO_OUTPUT / f"{name}.txt").read_text().splitlines(keepends=True)


def test_a_first_build_counts_every_crate_once() -> None:
    total = len(crates_in_tree("".join(output("tree"))))
    messages = shown(output("first"), total)
    assert total == 12
    assert messages[0] == "building: proc-macro2 (1 of 12 crates; candle is built once per machine)"
    numbers = [int(re.findall(r"\((\d+) of 12 crates;", message)[0]) for message in messages]
    assert numbers == list(range(1, 13))
    assert messages[-1].startswith("building: mini-0123456789ab (12 of 12 crates;")


def test_crates_that_were_compiled_before_are_counted_as_done() -> None:
    messages = shown(output("again"), 12)
    assert messages == ["building: mini-0123456789ab (12 of 12 crates; candle is built once per machine)"]


def test_without_a_total_the_crates_so_far_are_shown() -> None:
    assert shown(output("again"), None)[0].startswith("building: mini-0123456789ab (12 crates;")


def test_the_total_is_asked_for_only_if_something_is_compiled() -> None:
    def never() -> int:
        raise AssertionError("it was asked")

    crates = CrateCount(never)
    assert not any(crates.message(line) for line in output("first") if line.startswith("{"))


@pytest.fixture
def linear(tmp_path: Path) -> Path:
    folder = tmp_path / "rust"
    write_project(folder, generate(record(torch.nn.Linear(4, 3), torch.randn(2, 4)).graph), "linear")
    return folder


def test_a_real_build_comes_to_the_last_of_all_crates(linear: Path) -> None:
    messages: list[str] = []
    build(linear, "linear", messages.append)
    total = count_crates(find_cargo(), linear / "Cargo.toml")
    assert total is not None and total > 100
    assert f"({total} of {total} crates;" in messages[-1]
    messages.clear()
    build(linear, "linear", messages.append)
    assert not [message for message in messages if message.startswith("building")]


def test_a_build_that_fails_says_what_the_compiler_said(linear: Path) -> None:
    (linear / "src" / "lib.rs").write_text("pub mod model;\npub fn wrong() -> i32 { true }\n")
    with pytest.raises(BuildError, match="TP0502") as caught:
        build(linear, "linear", lambda _: None)
    text = str(caught.value)
    assert "mismatched types" in text and "lib.rs:2" in text and '{"reason"' not in text


def converted(model: torch.nn.Module, x: torch.Tensor, name: str, folder: Path) -> tuple[Artifact, Path]:
    """The port of a model, and the golden trace to run it along."""
    capture = record(model, x, name=name)
    files = capture.save(folder / "capture")
    made = TARGET.convert(capture.graph, capture.weights, folder / "rust", CandleOptions())
    return made, files["trace"]


def files_of(project: Path) -> Files:
    return Files(project / WEIGHTS, project / CONFIG)


class Determinant(torch.nn.Module):
    """A layer, and then an operation that nothing maps."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.slogdet(self.fc(x))[1]


def test_a_port_that_reaches_a_todo_says_which_operation(tmp_path: Path) -> None:
    made, trace = converted(Determinant().eval(), torch.randn(4, 4), "determinant", tmp_path)
    (todo,) = made.todos
    program = build(made.folder, "determinant", lambda _: None)
    stopped_before = tmp_path / "run" / "lockstep.safetensors.stopped.json"
    stopped_before.parent.mkdir()
    stopped_before.write_text("of an earlier run")
    recorded = tmp_path / "run" / "lockstep.safetensors"
    complaint = run(program, files_of(made.folder), trace, "lockstep", recorded, "determinant")
    assert complaint is not None and complaint.todo is not None and complaint.todo.op == todo.op
    assert f"TODO(torchport): {todo.op} in Determinant" in complaint.message
    stop = read_stop(recorded)
    assert stop is not None and stop.todo is not None
    assert stop.todo.op == todo.op
    assert stop.todo.message.startswith(f"{todo.op} in Determinant at ")
    assert stop.todo.message.endswith(todo.reason)
    assert stop.message == f"TODO(torchport): {stop.todo.message}"
    assert json.loads(stop_file(recorded).read_text())["schema"] == 1
    assert {path.name for path in recorded.parent.iterdir()} == {recorded.name, stop_file(recorded).name}


def test_a_port_that_comes_to_its_end_leaves_no_word_of_a_stop(tmp_path: Path) -> None:
    made, trace = converted(torch.nn.Linear(4, 3), torch.randn(2, 4), "linear", tmp_path)
    program = build(made.folder, "linear", lambda _: None)
    recorded = tmp_path / "lockstep.safetensors"
    stop_file(recorded).write_text("of an earlier run")
    assert run(program, files_of(made.folder), trace, "lockstep", recorded, "linear") is None
    assert recorded.is_file() and read_stop(recorded) is None


def test_a_program_removes_what_an_earlier_run_said_even_if_it_fails_at_its_weights(tmp_path: Path) -> None:
    made, trace = converted(torch.nn.Linear(4, 3), torch.randn(2, 4), "linear", tmp_path)
    program = build(made.folder, "linear", lambda _: None)
    recorded = tmp_path / "lockstep.safetensors"
    stop_file(recorded).write_text("of an earlier run")
    command = [program, "--weights", tmp_path / "none", "--config", made.folder / "config.json"]
    command += ["--check", trace, "--record", recorded]
    assert os.spawnv(os.P_WAIT, program, [str(word) for word in command]) != 0
    assert not stop_file(recorded).exists() and not recorded.exists()
