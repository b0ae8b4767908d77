"""Bad input of every kind: a coded error with the next step, exit code 2, and nothing half-written."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from torchport.capture.hooks import UNKNOWN
from torchport.cli import main
from torchport.runs.report import Report

MODELS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.first(x).relu())

class Broken(nn.Module):
    def forward(self, x):
        return x @ torch.ones(3, 3)

class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        y = self.dense(x) * self.scale
        if y.sum() > 0:  # the line that export cannot follow
            y = y * 2
        return y

class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.ModuleList([Gate(), Gate()])
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        print("forward runs")
        for gate in self.gates:
            x = x + gate(x)
        return self.head(x)

class Random(nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)

def net():
    torch.manual_seed(0)
    return Net(), (torch.ones(2, 4),)

def wide():
    return nn.Linear(300, 300), (torch.ones(2, 300),)

def broken():
    return Broken(), (torch.ones(2, 4),)

def gated():
    torch.manual_seed(0)
    return Gated(), (torch.ones(2, 4),)

def random():
    return Random(), (torch.ones(2, 4),)

def raises():
    raise ValueError("no such size")

def number():
    return Net(), 4

def sleeps():
    import sys, time
    print("sleeping", file=sys.stderr, flush=True)
    time.sleep(60)
"""
BROKEN_LINE = MODELS.splitlines().index("        return x @ torch.ones(3, 3)") + 1
GATE_LINE = next(i for i, line in enumerate(MODELS.splitlines(), 1) if "cannot follow" in line)
RAISES_LINE = MODELS.splitlines().index('    raise ValueError("no such size")') + 1


class Torchport:
    """Runs commands in a folder.

    Any that ends with 2 is run once more where a finished run, or a file, is, which must be the same afterwards.
    """

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], finished: Path) -> None:
        self.folder, self.capsys, self.finished = folder, capsys, finished
        self.run_again: set[tuple[str, ...]] = set()

    def __call__(self, *arguments: str | Path, everywhere: bool = True) -> tuple[int, str, str]:
        """`everywhere` says whether a command that cannot be done cannot be done wherever it writes to."""
        result = self._run(arguments)
        command = tuple(str(one) for one in arguments)
        if result[0] == 2 and everywhere and command not in self.run_again:
            self.run_again.add(command)
            self._leaves_all_as_it_was(list(command))
        return result

    def _run(self, arguments: Sequence[str | Path]) -> tuple[int, str, str]:
        self.capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = self.capsys.readouterr()
        assert "Traceback" not in err and "TP0001" not in out + err, err
        only_whole_files(self.folder)
        return code, out, err

    def refuses(
        self, *arguments: str | Path, code: str, says: str = "", at: str = "", everywhere: bool = True
    ) -> dict[str, Any]:
        exit_code, out, err = self(*arguments, everywhere=everywhere)
        assert exit_code == 2 and out == "", (exit_code, out)
        assert f"error {code}: " in err and "\n  next:  " in err and says in err, err
        exit_code, out, _ = self(*arguments, "--json", everywhere=everywhere)
        answer = json.loads(out)
        assert exit_code == 2 and (answer["schema"], answer["status"]) == (1, "error")
        error = answer["error"]
        assert error["code"] == code and error["message"] and error["fix"]
        assert says in f"{error['message']} {error['fix']}" and at in (error["where"] or ""), error
        return dict(error)

    def _leaves_all_as_it_was(self, places: list[str]) -> None:
        """What the command would write to or over, and each folder of a run that it is given."""
        given = [Path(one) for one in places[1:] if Path(one).is_dir()]
        for option, is_folder in _WRITES_TO.get(places[0], {}).items():
            if option in places and Path(places[at := places.index(option) + 1]).parent.is_dir():
                there = self.folder / f"there_before{Path(places[at]).suffix}"
                shutil.rmtree(there, ignore_errors=True)
                shutil.copytree(self.finished, there) if is_folder else there.write_text("mine")
                places[at] = str(there)
                given.append(there)
        before = [contents(place) for place in given]
        code, out, err = self._run(places)
        after = [contents(place) for place in given]
        if (
            places[0] == "record" and "TP0202" in out + err
        ):  # It is recorded all the same, beside what is there.
            after = [{path: now[path] for path in was} for now, was in zip(after, before, strict=True)]
        assert code == 2 and after == before


_WRITES_TO: dict[str, dict[str, bool]] = {
    "port": {"--out": True},
    "record": {"--out": True},
    "codegen": {"--out": False, "--port": True},
}
"""Command → the options that say where it writes to, and whether that is a folder."""


def contents(folder: Path) -> dict[str, bytes | None]:
    """All that is in a folder, by path; None for a folder. Of a file, what is in it."""
    if folder.is_file():
        return {"": folder.read_bytes()}
    return {
        path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def only_whole_files(folder: Path) -> None:
    for path in folder.rglob("*"):
        assert not path.name.endswith(".tmp"), path
        if path.suffix == ".json" and "_manifest" in path.name and "bad" not in path.parts:
            json.loads(path.read_text())
        if path.suffix == ".safetensors" and "bad" not in path.parts:
            with safe_open(path, "pt"):
                pass


@pytest.fixture
def torchport(
    tmp_path: Path, finished: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Torchport:
    (tmp_path / "m.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    return Torchport(tmp_path, capsys, finished)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A port that was written, and not built."""
    from torchport.capture.spec import load_spec
    from torchport.porting.commands import port

    folder = tmp_path_factory.mktemp("made")
    (folder / "m.py").write_text(MODELS)
    subject = load_spec(f"{folder / 'm.py'}:net")
    port(subject.model, subject.args, out=folder / "port", name="net")
    return folder / "port"


@pytest.fixture(scope="module")
def finished(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with what a verdict leaves behind, and a program of the user's own in the project."""
    folder = Path(shutil.copytree(made, tmp_path_factory.mktemp("finished") / "port"))
    for name in (
        "report.json",
        "report.html",
        "run/chained.safetensors",
        "snippets/first/rerun.py",
        "minified/reproduce.py",
        "checks/other/report.json",
        "rust/src/bin/mine.rs",
        "notes.txt",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        save_file({}, folder / name) if name.endswith("safetensors") else (folder / name).write_text("{}")
    (folder / "report.json").write_text(Report(status="pass", target="candle", model="net").to_json())
    return folder


@pytest.fixture
def port(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it in the working directory, to be spoilt."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(made, tmp_path / "bad"))


PORT = ("--to", "candle", "--out", "out")


# The SPEC


@pytest.mark.parametrize(
    ("spec", "code", "says", "at"),
    [
        ("m.py", "TP0101", "'m.py' is not a SPEC", ""),
        ("nowhere.py:net", "TP0102", "nowhere.py", ""),
        ("no_such_package:net", "TP0102", "no_such_package", ""),
        ("m.py:nobody", "TP0103", "nobody", "m.py"),
        ("m.py:raises", "TP0104", "no such size", f"m.py:{RAISES_LINE}"),
        ("m.py:Net", "TP0105", "a model alone", "m.py"),
        ("m.py:number", "TP0105", "(Net, int)", "m.py"),
    ],
)
@pytest.mark.parametrize("command", ["port", "record"])
def test_a_spec_that_names_no_model(
    torchport: Torchport, command: str, spec: str, code: str, says: str, at: str
) -> None:
    options = PORT if command == "port" else ("--name", "n", "--out", "out")
    torchport.refuses(command, spec, *options, code=code, says=says, at=at)
    assert not Path("out").exists()


def test_a_file_with_a_syntax_error_is_named_by_the_line(torchport: Torchport) -> None:
    Path("wrong.py").write_text("import torch\n\ndef net(:\n")
    torchport.refuses("port", "wrong.py:net", *PORT, code="TP0104", says="SyntaxError", at="wrong.py:3")


# The model


def test_a_model_that_fails_its_own_forward_is_named_by_the_line(torchport: Torchport) -> None:
    torchport.refuses(
        "port", "m.py:broken", *PORT, code="TP0201", at=f"Broken at {torchport.folder}/m.py:{BROKEN_LINE}"
    )
    assert not Path("out").exists()


def test_a_model_that_is_random_is_refused(torchport: Torchport) -> None:
    torchport.refuses("port", "m.py:random", *PORT, code="TP0204", says="random")
    assert not Path("out").exists()


def test_a_model_that_export_cannot_follow_is_unsupported_and_recorded(
    torchport: Torchport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, out, err = torchport("port", "m.py:gated", *PORT)
    assert code == 2 and "UNSUPPORTED" in out and f"m.py:{GATE_LINE}" in out and "if y.sum() > 0" in out
    assert "TP0202" in err
    code, out, _ = torchport("port", "m.py:gated", *PORT, "--json")
    answer = json.loads(out)
    assert code == 2 and answer["status"] == "unsupported"
    assert [todo["layer"] for todo in answer["todos"]] == ["gates.0", "gates.1"]
    for todo in answer["todos"]:
        assert todo["op"] == UNKNOWN and todo["source"].endswith(f"m.py:{GATE_LINE}")
        assert "if y.sum() > 0" in todo["reason"]
    assert {path.name for path in Path("out/capture").iterdir()} == {
        f"gated_{kind}"
        for kind in ("manifest.json", *(f"{k}.safetensors" for k in ("trace", "truth", "weights")))
    }
    rust = Path("out/rust/src/model.rs").read_text()
    assert rust.count("// TODO(torchport)") == 1, "both gates are one struct"
    assert "nn::linear" in rust and "struct Gate " in rust


def test_recording_what_export_cannot_follow_says_so(torchport: Torchport) -> None:
    code, out, _ = torchport("record", "m.py:gated", "--name", "g", "--out", "out", "--json")
    answer = json.loads(out)
    assert code == 2 and answer["status"] == "unsupported"
    assert answer["export_error"]["code"] == "TP0202"
    assert answer["export_error"]["where"].endswith(f"m.py:{GATE_LINE}")
    assert (answer["modules"], answer["calls"]) == (6, 6)
    assert all(Path(path).is_file() for path in answer["files"].values())


def test_code_from_a_manifest_with_unknown_parts(torchport: Torchport) -> None:
    torchport("record", "m.py:gated", "--name", "g", "--out", "out")
    code, out, _ = torchport("codegen", "--manifest", "out/g_manifest.json", "--out", "g.rs", "--json")
    answer = json.loads(out)
    assert code == 1 and answer["unsupported"] == [UNKNOWN] and len(answer["todos"]) == 2
    assert "aten.linear.default" in answer["converted"]
    assert all("if y.sum() > 0" in todo["reason"] for todo in answer["todos"])
    assert Path("g.rs").read_text().count("// TODO(torchport)") == 1
    code, out, _ = torchport(
        "codegen", "--manifest", "out/g_manifest.json", "--out", "h.rs", "--analyze-only", "--json"
    )
    assert code == 1 and not Path("h.rs").exists()


# Files


@pytest.mark.parametrize(
    ("spoil", "code", "says"),
    [
        (lambda text: text[: len(text) // 2], "TP0303", "ends too early"),
        (lambda text: "", "TP0303", "ends too early"),
        (lambda text: "no JSON at all", "TP0302", "not JSON"),
        (lambda text: text.replace('"schema": 1', '"schema": 99'), "TP0304", "99"),
        (lambda text: text.replace('"modules":', '"moduls":'), "TP0305", "modules"),
        (lambda text: text.replace('"target": "last"', '"target": "lost"'), "TP0305", "lost"),
    ],
    ids=["truncated", "empty", "not-json", "newer", "missing-field", "contradiction"],
)
def test_a_manifest_that_cannot_be_used(
    torchport: Torchport, made: Path, spoil: Callable[[str], str], code: str, says: str
) -> None:
    Path("bad").mkdir()
    text = (made / "capture" / "net_manifest.json").read_text()
    Path("bad/m.json").write_text(spoil(text))
    command = ("codegen", "--manifest", "bad/m.json", "--out", "net.rs")
    torchport.refuses(*command, code=code, says=says, at="bad/m.json")
    assert not Path("net.rs").exists()


def test_a_manifest_that_is_not_there(torchport: Torchport) -> None:
    torchport.refuses("codegen", "--manifest", "no.json", "--out", "net.rs", code="TP0301", says="no.json")


def _rewrite(path: Path, drop: str) -> None:
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items() if name != drop}
    save_file(tensors, path, metadata)


def _opened_check(port: Path) -> Callable[[], Any]:
    from torchport.porting.commands import Port

    return Port.open(port).check


def coded(call: Callable[[], Any], code: str, says: str) -> None:
    """The error of a call from Python, which leaves the working directory as it was."""
    from torchport import TorchportError

    before = contents(Path.cwd())
    with pytest.raises(TorchportError) as caught:
        call()
    assert caught.value.code == code and says in str(caught.value), str(caught.value)
    assert caught.value.fix and contents(Path.cwd()) == before


@pytest.fixture
def no_building(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing must be found before anything is built."""
    from torchport.targets.candle import build

    def build_nothing(*_: Any) -> Path:
        raise AssertionError("it was built")

    monkeypatch.setattr(build, "build", build_nothing)


@pytest.mark.usefixtures("no_building")
class TestFilesOfAPort:
    def test_a_trace_that_misses_a_layer(self, port: Path) -> None:
        _rewrite(port / "capture" / "net_trace.safetensors", "first")
        coded(_opened_check(port), "TP0311", "first")

    def test_a_trace_whose_shapes_changed(self, port: Path) -> None:
        path = port / "capture" / "net_trace.safetensors"
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
        cut = {key: value[..., :1].clone() for key, value in load_file(path).items()}
        save_file(cut, path, metadata)
        coded(_opened_check(port), "TP0312", "shape")

    def test_a_trace_that_is_truncated(self, port: Path) -> None:
        path = port / "capture" / "net_trace.safetensors"
        path.write_bytes(path.read_bytes()[:-7])
        coded(_opened_check(port), "TP0310", "truncated")

    def test_a_trace_that_is_not_there(self, port: Path) -> None:
        (port / "capture" / "net_trace.safetensors").unlink()
        coded(_opened_check(port), "TP0310", "no trace")

    def test_a_truth_that_is_truncated(self, port: Path) -> None:
        (port / "capture" / "net_truth.safetensors").write_bytes(b"\x00")
        coded(_opened_check(port), "TP0310", "net_truth")

    def test_a_manifest_that_is_not_there(self, torchport: Torchport, port: Path) -> None:
        (port / "capture" / "net_manifest.json").unlink()
        torchport.refuses("check", port, "m.py:net", code="TP0301", says="there is no manifest")

    def test_a_folder_that_holds_no_run(self, torchport: Torchport, port: Path) -> None:
        (port / "capture" / "net_manifest.json").unlink()
        (port / "run.json").unlink()
        torchport.refuses("check", port, "m.py:net", code="TP0301", says="holds no port")

    @pytest.mark.parametrize(
        "text", ["", '{"schema": 1, "name"', "[]", '{"schema": 9, "name": "net", "target": "x"}']
    )
    def test_a_run_file_that_is_cut_off_or_of_a_later_version(
        self, torchport: Torchport, port: Path, text: str
    ) -> None:
        (port / "run.json").write_text(text)
        torchport.refuses("check", port, code="TP0345", says="run.json", at="run.json")

    def test_a_run_of_a_target_that_is_not_installed(self, torchport: Torchport, port: Path) -> None:
        about = json.loads((port / "run.json").read_text())
        (port / "run.json").write_text(json.dumps({**about, "target": "brick"}))
        torchport.refuses("check", port, code="TP0402", says="'brick'")

    def test_two_ports_in_one_directory(self, torchport: Torchport, port: Path) -> None:
        (port / "run.json").unlink()
        shutil.copy(port / "capture" / "net_manifest.json", port / "capture" / "other_manifest.json")
        torchport.refuses("check", port, "m.py:net", code="TP0301", says="net, other")

    def test_weights_that_miss_a_tensor(self, torchport: Torchport, port: Path) -> None:
        _rewrite(port / "rust" / "model.safetensors", "last.bias")
        command = ("check", port, "m.py:net")
        torchport.refuses(*command, code="TP0320", says="'last.bias'", at="model.safetensors")

    @pytest.mark.parametrize(
        ("name", "tensor", "says"),
        [
            ("last.weight", torch.zeros(4, 3), "[4, 3]"),
            ("last.bias", torch.zeros(3, dtype=torch.int64), "I64"),
        ],
    )
    def test_weights_of_a_wrong_shape_or_dtype(
        self, torchport: Torchport, port: Path, name: str, tensor: torch.Tensor, says: str
    ) -> None:
        path = port / "rust" / "model.safetensors"
        save_file({**load_file(path), name: tensor}, path)
        torchport.refuses("check", port, "m.py:net", code="TP0321", says=says, at="model.safetensors")

    def test_weights_that_are_not_there_or_truncated(self, torchport: Torchport, port: Path) -> None:
        path = port / "rust" / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-5])
        torchport.refuses("check", port, "m.py:net", code="TP0320", at="model.safetensors")
        path.unlink()
        torchport.refuses("check", port, "m.py:net", code="TP0320", says="no weights file")

    def test_a_model_that_the_port_was_not_made_from(self, torchport: Torchport, port: Path) -> None:
        torchport.refuses("check", port, "m.py:wide", code="TP0202", says="first")

    def test_inputs_that_the_port_was_not_made_for(self, torchport: Torchport, port: Path) -> None:
        Path("n.py").write_text(MODELS + "\ndef longer():\n    return net()[0], (torch.ones(2, 1, 4),)\n")
        torchport.refuses("check", port, "n.py:longer", code="TP0208", says="[batch, 4]")

    def test_a_directory_that_is_not_there(self, torchport: Torchport) -> None:
        torchport.refuses("check", "nowhere", "m.py:net", code="TP0301", says="nowhere")


# Tools and disks


def _only(folder: Path, *tools: str) -> str:
    """A PATH with only these tools on it."""
    folder.mkdir()
    for tool in tools:
        place = shutil.which(tool)
        assert place is not None
        (folder / tool).symlink_to(place)
    return str(folder)


def test_no_cargo(torchport: Torchport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", _only(torchport.folder / "tools", "rustfmt"))
    torchport.refuses("port", "m.py:net", *PORT, code="TP0501", says="rustup.rs")
    assert Path("out/rust/src/model.rs").is_file(), "the code is written all the same"


def test_no_rustfmt(torchport: Torchport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", _only(torchport.folder / "tools"))
    torchport.refuses("port", "m.py:net", *PORT, code="TP0503", says="rustup component add rustfmt")
    assert not Path("out/rust").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("needs to mount a small disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("cannot mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("spec", ["m.py:wide", "m.py:net"], ids=["while-recording", "while-writing-code"])
def test_a_disk_that_fills(torchport: Torchport, small_disk: Path, spec: str) -> None:
    command = ("port", spec, "--to", "candle", "--out", small_disk / "out")
    torchport.refuses(*command, code="TP0330", says="No space left")
    only_whole_files(small_disk)


def test_a_disk_that_fills_leaves_no_manifest(torchport: Torchport, small_disk: Path) -> None:
    command = ("record", "m.py:wide", "--name", "n", "--out", small_disk / "out")
    torchport.refuses(*command, code="TP0330", says="No space left", everywhere=False)
    only_whole_files(small_disk)
    assert not list(small_disk.rglob("*_manifest.json"))


def test_a_disk_that_fills_at_the_last_moment(torchport: Torchport, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    torchport.refuses("port", "m.py:net", *PORT, code="TP0330", says="No space left")
    assert not [path for path in Path("out").rglob("*") if path.is_file()]


@pytest.fixture
def read_only(small_disk: Path) -> Path:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    return small_disk


def test_a_directory_that_cannot_be_written_to(torchport: Torchport, read_only: Path) -> None:
    for command in (("port", "m.py:net", "--to", "candle"), ("record", "m.py:net", "--name", "n")):
        torchport.refuses(
            *command, "--out", read_only / "out", code="TP0330", says="does not allow it", everywhere=False
        )


def test_an_out_that_is_a_file(torchport: Torchport) -> None:
    Path("file").write_text("mine")
    for command in (("port", "m.py:net", "--to", "candle"), ("record", "m.py:net", "--name", "n")):
        torchport.refuses(*command, "--out", "file/out", code="TP0330", says="not a directory")
    assert Path("file").read_text() == "mine"


# Options


@pytest.mark.parametrize(
    ("dynamic", "says"),
    [("x", "NAME:AXIS"), ("y:0", "tensor inputs are: x"), ("x:2", "(2, 4)"), ("x:1", "axis 1 is always 4")],
)
def test_a_dynamic_axis_that_cannot_be_had(torchport: Torchport, dynamic: str, says: str) -> None:
    torchport.refuses("port", "m.py:net", *PORT, "--dynamic", dynamic, code="TP0106", says=says)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "No such file"),
        ("{", "cannot be read"),
        ("[]", "not a JSON object"),
        ('{"sizes": {}}', "sizes"),
        ('{"dims": []}', "dims is not an object"),
        ('{"dims": {"hidden": "big"}}', "'big'"),
        ('{"dims": {"hidden": true}}', "True"),
        ('{"dims": {"hidden size": 4}}', "hidden size"),
        ('{"dynamic": {"x": 0}}', "axes of x"),
        ('{"dynamic": {"x": [-1]}}', "[-1]"),
    ],
)
@pytest.mark.parametrize("command", ["port", "record"])
def test_hints_that_cannot_be_used(torchport: Torchport, command: str, text: str | None, says: str) -> None:
    if text is not None:
        Path("hints.json").write_text(text)
    options = PORT if command == "port" else ("--name", "n", "--out", "out")
    torchport.refuses(
        command, "m.py:net", *options, "--hints", "hints.json", code="TP0107", says=says, at="hints"
    )
    assert not Path("out").exists()


def test_free_axes_in_hints_are_checked_like_the_option(torchport: Torchport) -> None:
    Path("hints.json").write_text('{"dynamic": {"y": [0]}}')
    torchport.refuses("port", "m.py:net", *PORT, "--hints", "hints.json", code="TP0106", says="'y'")


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--to", "candle", "--rtol", "-1"), "TP0801", "--rtol"),
        (("--to", "candle", "--atol", "nan"), "TP0801", "--atol"),
        (("--to", "candle", "--rtol", "much"), "TP0801", "--rtol"),
        (("--to", "brick"), "TP0402", "candle"),
        (("--to", "candle", "--checks", "some"), "TP0801", "some"),
    ],
)
def test_options_that_cannot_be_used(
    torchport: Torchport, options: tuple[str, ...], code: str, says: str
) -> None:
    torchport.refuses("port", "m.py:net", "--out", "out", *options, code=code, says=says)
    assert not Path("out").exists()


def test_a_name_that_no_struct_can_have(torchport: Torchport, made: Path) -> None:
    manifest = made / "capture" / "net_manifest.json"
    command = ("codegen", "--manifest", manifest, "--out", "net.rs", "--model", "two words")
    torchport.refuses(*command, code="TP0801", says="two words")


# Recording scripts


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (None, "TP0102", "script.py"),
        ("x = 1\n", "TP0206", "recorded nothing"),
        ("1/0\n", "TP0206", "ZeroDivisionError"),
        ("import torchport\ntorchport.GoldenRecorder('.')\n", "TP0206", "recorded nothing"),
    ],
)
def test_a_script_that_records_nothing(torchport: Torchport, text: str | None, code: str, says: str) -> None:
    if text is not None:
        Path("script.py").write_text(text)
    command = ("record", "--script", "script.py", "--name", "n", "--out", "out")
    torchport.refuses(*command, code=code, says=says)
    assert not Path("out").exists()


# Ctrl-C


def test_ctrl_c_ends_quietly_with_130(torchport: Torchport, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchport.capture import recorder

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(recorder, "run_eager", stop)
    code, out, _ = torchport("port", "m.py:net", *PORT)
    assert (code, out) == (130, "")
    assert not Path("out").exists()


@pytest.mark.slow
def test_a_real_ctrl_c(torchport: Torchport) -> None:
    command = [sys.executable, "-c", "import sys; from torchport.cli import main; sys.exit(main())"]
    process = subprocess.Popen(
        [*command, "port", "m.py:sleeps", *PORT],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # A shell's background jobs ignore Ctrl-C, and hand that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    seen = ""
    deadline = time.monotonic() + 120
    while "sleeping" not in seen and time.monotonic() < deadline:
        seen += process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130 and out == "" and "Traceback" not in err
