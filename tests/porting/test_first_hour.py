"""Ports as a new user makes them: nothing of theirs is lost, and what is assumed is said."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torchport
from torchport import Port, Report, TorchportError
from torchport.cli import main
from torchport.porting import recording
from torchport.report.terminal import text_of
from torchport.runs.run import Run

from ..targets.conformance import SABOTAGE, Net, model_and_inputs

pytestmark = pytest.mark.slow

SPECS = """
import torch
from tests.targets.conformance import Net

def made(rows, seed=0):
    torch.manual_seed(seed)
    return Net().eval(), (torch.randn(rows, 24), torch.rand(24) + 0.5)

def net():
    return made(4)

def more():
    return made(9)

def strange():
    return made(4, seed=1)
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A port to torch that passed."""
    folder = tmp_path_factory.mktemp("first_hour") / "net"
    assert torchport.port(*model_and_inputs(), target="torch", out=folder, name="net").check().passed
    return folder


@pytest.fixture
def run(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it in the working directory, beside a file of SPECs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text(SPECS)
    return Path(shutil.copytree(kept, tmp_path / "net"))


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


# Checks on other inputs


def test_a_check_on_other_inputs_is_a_run_beside_the_port(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(run)
    code, report = answer(capsys, "check", "net", "m.py:more")
    other = run / "checks" / "more"
    assert (code, report["status"], report["report"]) == (0, "pass", "net/checks/more/report.json")
    after = contents(run)
    assert {path: data for path, data in after.items() if not path.startswith("checks/")} == before
    assert {Path(path).parts[1] for path in after if path.startswith("checks/")} == {"more"}
    assert answer(capsys, "report", str(other))[1]["status"] == "pass"
    assert answer(capsys, "diff", str(run), str(run))[0] == 0
    assert answer(capsys, "diff", str(run / "capture"), str(run))[0] == 0
    assert answer(capsys, "diff", str(other), str(other))[0] == 0


def test_a_check_on_other_inputs_that_fails_can_be_reported_shown_and_minified(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SABOTAGE["torch"].gelu_as_tanh(run / "graph")
    other = run / "checks" / "more"
    assert answer(capsys, "check", "net", "m.py:more")[0] == 1
    assert Run.open(run).report.passed, "the verdict of the port is another one"
    code, report = answer(capsys, "report", str(other))
    assert code == 1 and report["first_divergence"]["operation"]["op"] == "aten.gelu.default"
    assert Path(report["first_divergence"]["snippet"]).is_relative_to(other)
    assert Run.open(other).graph is not None and "FAIL" in text_of(Run.open(other))
    code, small = answer(capsys, "minify", str(other))
    assert (code, small["operations"]) == (0, ["aten.gelu.default"])
    assert (other / "minified").is_dir() and not (run / "minified").exists()
    assert answer(capsys, "check", str(other))[0] == 1, "and it can be checked again"


def test_checks_of_two_specs_with_one_name_do_not_replace_each_other(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("n.py").write_text(SPECS)
    for spec in ("m.py:more", "n.py:more", "m.py:more"):
        assert answer(capsys, "check", "net", spec)[0] == 0
    assert sorted(path.name for path in (run / "checks").iterdir()) == ["more", "more_2"]


def test_a_check_at_other_sizes_has_their_config_and_weights_in_its_own_folder(tmp_path: Path) -> None:
    class Sized(nn.Module):
        def __init__(self, size: int = 8) -> None:
            super().__init__()
            self.size = size
            self.dense = nn.Linear(size, 2 * size)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.dense(x)

    port = torchport.port(Sized().eval(), torch.randn(3, 8), out=tmp_path / "port", name="sized")
    beside = port.files.free_check("large", "m.py:large")
    large = recording.Subject(Sized(6).eval(), (torch.randn(3, 6),), {})
    made = recording.on_other_inputs(large, port, beside)
    opened = Port.open(beside.path)
    assert opened.artifact == made.artifact and opened.files.project == port.files.project
    assert opened.artifact.stored == beside.path / "resized" / "model.safetensors"
    assert json.loads((beside.path / "resized" / "config.json").read_text()) == {"size": 6}
    recording.sound(opened.files, opened.artifact.stored)
    same = recording.Subject(Sized().eval(), (torch.randn(5, 8),), {})
    with pytest.raises(TorchportError, match="TP0327"):
        recording.on_other_inputs(same, port, port.files.free_check("same", "m.py:same"))


def test_other_weights_are_said_before_anything_is_compared(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(run)
    code, said = answer(capsys, "check", "net", "m.py:strange")
    assert code == 2 and said["error"]["code"] == "TP0327"
    assert (
        "these are other weights: 6 of 10 tensors differ, the first is 'blocks.0.dense.bias'"
        in said["error"]["message"]
    )
    assert contents(run) == before and not (run / "checks").exists()


def test_a_model_whose_buffers_were_written_to_has_no_other_weights(tmp_path: Path) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls: torch.Tensor
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1)
            return x * 2

    model = Counting().eval()
    port = torchport.port(model, torch.randn(3, 4), target="torch", out=tmp_path / "net")
    model(torch.randn(3, 4))
    report = port.check(torch.randn(5, 4))
    assert report.passed and any("writes to calls" in note for note in report.notes)


# What was edited, and what is older


def test_a_port_that_was_edited_is_not_written_over(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SABOTAGE["torch"].gelu_as_tanh(run / "graph")
    before = contents(run)
    command = ("port", "m.py:net", "--to", "torch", "--out", "net")
    code, said = answer(capsys, *command)
    assert code == 2 and said["error"]["code"] == "TP0331" and "--force" in said["error"]["fix"]
    assert said["error"]["where"] == "net/graph/graph.json" and contents(run) == before
    with pytest.raises(TorchportError, match="TP0331"):
        torchport.port(*model_and_inputs(), target="torch", out=run)
    assert answer(capsys, *command, "--force")[1]["status"] == "pass"
    assert answer(capsys, *command)[0] == 0, "what is not edited is written over"


@pytest.mark.parametrize("command", [("check", "net"), ("port", "m.py:net", "--to", "torch", "--out", "net")])
def test_what_belongs_to_an_older_verdict_goes_with_it(run: Path, command: tuple[str, ...]) -> None:
    older = ("report.html", "snippets/head/rerun.py", "minified/reproduce.py")
    for name in older:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("older")
    (run / "notes.txt").write_text("mine")
    assert main([*command]) == 0
    assert not any((run / name).exists() for name in older) and (run / "notes.txt").exists()


def test_another_model_in_the_same_folder_leaves_nothing_of_the_first(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(capsys, "check", "net", "m.py:more")[0] == 0
    assert answer(capsys, "port", "m.py:strange", "--to", "torch", "--out", "net")[0] == 0
    assert not (run / "checks").exists()
    assert {path.name.partition("_")[0] for path in (run / "capture").iterdir()} == {"strange"}
    assert Port.open(run).name == "strange"


# Ctrl-C


@pytest.mark.parametrize("step", ["run_eager", "save"])
def test_ctrl_c_in_a_port_over_another_says_that_it_is_as_before(
    run: Path, step: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from torchport.capture import recorder

    before = contents(run)
    _stopped_in(monkeypatch, recorder if step == "run_eager" else recorder.Capture, step)
    assert main(["port", "m.py:net", "--to", "torch", "--out", "net"]) == 130
    assert "stopped: net is as it was before; the same command begins anew" in capsys.readouterr().err
    assert contents(run) == before


def test_ctrl_c_before_the_first_verdict_says_how_to_go_on(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from torchport.targets.torch.target import TorchArtifact

    command = ["port", "m.py:net", "--to", "torch", "--out", "new"]
    with monkeypatch.context() as patch:
        _stopped_in(patch, TorchArtifact, "run")
        assert main(command) == 130
    assert "`torchport check new` goes on" in capsys.readouterr().err
    assert answer(capsys, "check", "new")[1]["status"] == "pass"


def test_ctrl_c_over_a_port_without_a_verdict_says_whose_port_is_there(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from torchport.capture import recorder
    from torchport.targets.torch.target import TorchArtifact

    (run / "report.json").unlink()
    before = contents(run)
    command = ["port", "m.py:net", "--to", "torch", "--out", "net"]
    with monkeypatch.context() as patch:
        _stopped_in(patch, recorder, "run_eager")
        assert main(command) == 130
    assert "stopped: net is as it was before" in capsys.readouterr().err and contents(run) == before
    _stopped_in(monkeypatch, TorchArtifact, "run")
    assert main(command) == 130
    assert "`torchport check net` goes on" in capsys.readouterr().err


@pytest.mark.parametrize("command", [("check", "net"), ("check", "net", "m.py:more"), ("minify", "net")])
def test_ctrl_c_in_a_check_says_that_all_is_as_before(
    run: Path,
    command: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from torchport.targets.torch.target import TorchArtifact

    before = contents(run)
    _stopped_in(monkeypatch, TorchArtifact, "run")
    assert main([*command]) == 130
    assert "stopped: net is as it was before" in capsys.readouterr().err
    assert contents(run) == before


def _stopped_in(patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    patch.setattr(owner, name, stop)


# What is assumed


Made = Callable[..., Report]


@pytest.fixture
def report_of(tmp_path: Path) -> Made:
    def report(model: nn.Module, *args: Any, **options: Any) -> Report:
        given = options.pop("kwargs", None)
        tolerances = {name: options.pop(name) for name in ("rtol", "atol") if name in options}
        made = torchport.port(model, args, given, target="torch", out=tmp_path / "it", **options)
        found = made.check(**tolerances)
        assert Report.from_json((tmp_path / "it" / "report.json").read_text()).notes == found.notes
        return found

    return report


X = torch.linspace(-1, 1, 16).reshape(2, 8)


def test_a_model_that_came_in_training_mode_is_noted(report_of: Made) -> None:
    (note,) = report_of(nn.Sequential(nn.Linear(8, 4), nn.Dropout(0.5)), X).notes
    assert "came in training mode, and was taken in eval mode" in note
    assert report_of(nn.Linear(8, 4).eval(), X).notes == ()


class Scaled(nn.Module):
    def forward(
        self, x: torch.Tensor, scale: float = 1.0, flag: bool = False, mask: Any = None
    ) -> torch.Tensor:
        return (-x if flag else x) * scale


def test_arguments_that_became_constants_are_noted(report_of: Made) -> None:
    model = Scaled().eval()
    assert report_of(model, X, 3.0).notes == ("scale=3.0 is no tensor, and became a constant of the port",)
    (note,) = report_of(model, X, 3.0, kwargs={"flag": True, "mask": None}).notes
    assert note == "scale=3.0, flag=True are no tensors, and became constants of the port"


class Fixing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(2, -1, 4) * 2 if x.shape[0] == 2 else x.sum()


def test_an_axis_that_could_not_be_left_free_is_noted_with_what_fixed_it(report_of: Made) -> None:
    (note,) = report_of(Fixing().eval(), X).notes
    assert note.startswith("axis 0 of x could not be left free (") and "takes only 2 there" in note
    line = Fixing.forward.__code__.co_firstlineno + 1
    assert f"test_first_hour.py:{line}" in note
    assert report_of(Fixing().eval(), X, dynamic="").notes == (), "nobody asked for one"


def test_dropout_in_eval_mode_draws_nothing(report_of: Made) -> None:
    attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True).eval()
    assert not any("random" in note for note in report_of(attention, *[X[None]] * 3).notes)


def test_tolerances_so_wide_that_nothing_could_fail_are_noted(report_of: Made) -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU()).eval()
    (note,) = report_of(model, X, rtol=1.0).notes
    assert (
        note
        == "the tolerances (rtol 1, atol 0) are so wide that nothing could fail: zeros would pass everywhere"
    )
    assert "nothing could fail" in report_of(model, X, atol=50.0).notes[0]
    assert report_of(model, X, rtol=1e-3, atol=1e-6).notes == ()


def test_a_model_that_is_nan_everywhere_proves_nothing_and_does_not_diverge(
    report_of: Made, tmp_path: Path
) -> None:
    class Nan(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.dense((x - 10).log())

    report = report_of(Nan().eval(), X)
    assert (report.status, report.first_divergence) == ("error", None)
    assert report.notes == (
        "nothing is proven of dense, Nan: the original gives NaN everywhere, and so does the port",
    )
    text = text_of(Run.open(tmp_path / "it"))
    assert "nothing is proven: 2 of 2 layers are NaN everywhere" in text and "diverge" not in text
    with pytest.raises(TorchportError, match="TP0702.*nothing is proven of dense"):
        report.raise_for_divergence()


def test_a_port_that_gives_numbers_where_the_model_gives_nan_diverges(tmp_path: Path) -> None:
    class Nan(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.gelu(x * math.nan)

    port = torchport.port(Nan().eval(), X, target="torch", out=tmp_path / "it")
    graph = tmp_path / "it" / "graph" / "graph.json"
    graph.write_text(graph.read_text().replace("aten.gelu.default", "aten.isnan.default"))
    report = port.check(explain=False)
    assert report.status == "fail" and report.first_divergence is not None


def test_python_errors_name_the_argument(tmp_path: Path) -> None:
    port = torchport.port(Net().eval(), model_and_inputs()[1], target="torch", out=tmp_path / "it")
    with pytest.raises(TorchportError, match=r"TP0801: rtol is -1"):
        port.check(rtol=-1)
    with pytest.raises(TorchportError, match=r"TP0106: dynamic has 'x'"):
        torchport.port(Net(), model_and_inputs()[1], target="torch", out=tmp_path / "it", dynamic="x")


def test_a_failing_forward_is_named_by_its_module_and_line(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.Sequential(nn.ReLU(), nn.Linear(8, 4)))
    with pytest.raises(TorchportError, match=r"TP0201.*\(1\.1 \(Linear\)"):
        torchport.port(model, X, target="torch", out=tmp_path / "it")
