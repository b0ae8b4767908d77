"""Branches, loops and scans as Rust: proven on either side and at other lengths, and faults inside them are found."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from torchport.capture.manifest import read_manifest
from torchport.files import cache_directory
from torchport.porting.commands import Port
from torchport.porting.commands import port as make_port
from torchport.runs.report import Report
from torchport.targets.candle.build import find_cargo
from torchport.targets.candle.writer import generate

from ...capture.control_flow_models import seeded
from .flow_models import Everything

pytestmark = [pytest.mark.slow, pytest.mark.builds]

ROWS = torch.rand(5, 4, generator=torch.Generator().manual_seed(2)) - 0.3
SEQUENCES = torch.rand(2, 6, 4, generator=torch.Generator().manual_seed(3)) / 4
FIXED = torch.rand(2, 7, 4, generator=torch.Generator().manual_seed(4))
DYNAMIC = {"x": (0,), "sequences": (0, 1), "fixed": (0,)}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Port:
    out = tmp_path_factory.mktemp("flows")
    return make_port(seeded(Everything), (ROWS, SEQUENCES, FIXED), out=out, name="flows", dynamic=DYNAMIC)


def model_file(port: Port) -> Path:
    return port.artifact.folder / "src" / "model.rs"


@pytest.fixture
def edited(port: Port) -> Iterator[Path]:
    """The source, which a test may edit; it is put back."""
    before = model_file(port).read_text()
    yield model_file(port)
    model_file(port).write_text(before)


def assert_proven(report: Report) -> None:
    failed = [(layer.name, layer.reason) for layer in report.layers if not layer.passed]
    assert report.status == "pass" and not report.todos, failed or report.first_divergence


def ran(report: Report) -> set[str]:
    return {
        f"{flow.layer}.{role}"
        for flow in report.control_flow
        for role, body in flow.bodies.items()
        if body.ran
    }


def test_everything_is_proven_on_either_side_and_at_several_lengths(port: Port) -> None:
    assert not port.artifact.todos
    given = [
        (ROWS, SEQUENCES),
        (-ROWS, SEQUENCES[:, :2]),
        (ROWS.repeat(2, 1) / 3, 2 * SEQUENCES.repeat(2, 3, 1)),
        (ROWS[:2] * 30, -SEQUENCES[:1]),
    ]
    reports = [port.check((*args, FIXED), explain=False) for args in given]
    for report in reports:
        assert_proven(report)
    everywhere = set.union(*map(ran, reports))
    bodies = {f"{flow.layer}.{role}" for flow in reports[0].control_flow for role in flow.bodies}
    assert everywhere == bodies and "nested.scan.body.while_loop.body.cond.true" in bodies


def test_a_loop_that_was_written_out_is_a_loop_again_and_said_to_be_fixed(port: Port) -> None:
    _, _, code = model_file(port).read_text().partition("impl WrittenOut")
    code, _, _ = code.partition("\nstruct ")
    assert code.count("for t in 0..") == code.count("ops::expect_length(xs, 1, 7)") == 2
    notes = [note for note in port.check(explain=False).notes if note.startswith("written_out (")]
    assert len(notes) == 2 and "repeats one step 7 times" in notes[0] and "that length alone" in notes[0]


FAULTS = {
    "in a branch": ("impl Module for Branch", "ops::tanh", "ops::sigmoid", "branch.cond"),
    "in the condition of a loop": ("impl Fibonacci", "1000.0", "100000.0", "fibonacci.while_loop"),
    "in the step of a loop": ("impl Module for Collatz", "&steps, 1.0", "&steps, 2.0", "collatz.while_loop"),
    "in a loop in a scan": ("impl Nested", "&count, 1.0", "&count, 2.0", "nested.scan"),
    "in the step of a scan": ("impl Module for Cell", "ops::sigmoid", "ops::tanh", "cell.scan"),
    "in a loop that was written out": ("impl WrittenOut", "t as i64", "0", "written_out"),
    "in what a map reads": ("impl Pairs", ".get(i)", ".get(0)", "pairs.map"),
    "in how elements are combined": (
        "impl Recurrence",
        "+ right_2",
        "- right_2",
        "recurrence.associative_scan",
    ),
}


@pytest.mark.parametrize("where", FAULTS)
def test_a_fault_is_blamed_on_the_control_flow_around_it(where: str, port: Port, edited: Path) -> None:
    place, old, new, layer = FAULTS[where]
    head, found, tail = edited.read_text().partition(place)
    assert found and old in tail
    edited.write_text(head + found + tail.replace(old, new, 1))
    report = port.check(explain=False)
    culprit = report.first_divergence
    assert report.status == "fail" and culprit is not None
    assert (culprit.layer, culprit.kind) == (layer, "own")


def test_a_port_that_takes_the_other_branch_fails(port: Port, edited: Path) -> None:
    head, found, tail = edited.read_text().partition("impl Module for Branch")
    edited.write_text(head + found + tail.replace("ops::gt_scalar", "ops::le_scalar", 1))
    report = port.check(explain=False)
    assert report.status == "fail" and report.first_divergence is not None
    assert report.first_divergence.layer == "branch"


def test_clippy_finds_nothing(port: Port, edited: Path) -> None:
    graph, _ = read_manifest(port.files.manifest)
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(cache_directory() / "target"),
        "CARGO_NET_OFFLINE": "true",
    }
    for checks in ("layers", "none"):
        edited.write_text(generate(graph, checks=checks).source)
        command = [find_cargo(), "clippy", "--quiet", "--no-deps", "--", "-D", "warnings"]
        done = subprocess.run(
            command, cwd=port.artifact.folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"checks={checks}\n{done.stderr}"
