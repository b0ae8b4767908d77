"""The Python API: what torchport exports, and what a Port does, without a compiler."""

import inspect
import re
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import torchport
from torchport import Port, Report, TorchportError
from torchport.capture.plan import make_plan
from torchport.events import Event, LayerJudged, Message, ignore
from torchport.porting.commands import codegen, record_spec
from torchport.porting.port import safe_name
from torchport.targets import registry
from torchport.targets.base import Stopped, Todo
from torchport.trace.reading import Trace

from .. import echo_target
from ..capture import models
from ..echo_target import EchoTarget, Values

pytestmark = pytest.mark.slow

X = torch.linspace(-1, 1, 16).reshape(2, 8)


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> EchoTarget:
    target = EchoTarget()
    monkeypatch.setattr(echo_target, "TARGET", target)
    monkeypatch.setitem(registry._OWN, "echo", f"{echo_target.__name__}:TARGET")
    return target


@pytest.fixture
def made(echo: EchoTarget, tmp_path: Path) -> Port:
    return torchport.port(models.Stack(depth=1), X, target="echo", out=tmp_path / "port", name="net")


# What is exported


def test_the_public_names_are_those_promised() -> None:
    assert torchport.__all__ == [
        *("Capture", "GoldenRecorder", "Port", "Report", "TorchportError"),
        *("assert_parity", "compare_gradients", "compare_models", "port", "record"),
    ]


def test_every_public_name_is_there_and_nothing_else_is() -> None:
    for name in torchport.__all__:
        assert getattr(torchport, name).__name__ == name
    assert set(torchport._HOMES) == set(torchport.__all__)
    with pytest.raises(AttributeError, match="nothing_of_ours"):
        torchport.nothing_of_ours  # noqa: B018
    assert re.fullmatch(r"\d+\.\d+\.\d+", torchport.__version__)


def test_port_is_the_function_though_a_module_has_that_name() -> None:
    assert "torchport.porting.port" in sys.modules and inspect.isfunction(torchport.port)


# Porting


def test_a_port_that_gives_the_golden_values_back_passes(made: Port, echo: EchoTarget) -> None:
    report = made.check()
    assert report.passed and report.first_divergence is None
    assert [layer.name for layer in report.layers] == list(make_plan(made.graph).calls)
    assert (report.target, report.model, echo.prepared) == ("echo", "net", 1)
    assert report.report == str(made.folder / "report.json") and Path(report.report).is_file()
    assert list(report.seconds) == ["capture", "convert", "build", "run", "compare"]


def test_one_tensor_a_list_and_a_tuple_are_the_same_inputs(made: Port) -> None:
    other = torch.randn(5, 8)
    for args in (other, [other], (other,)):
        assert made.check(args).passed
    assert (made.folder / "checks" / "inputs" / "capture" / "net_trace.safetensors").is_file()


def test_keyword_inputs_alone_are_inputs(echo: EchoTarget, tmp_path: Path) -> None:
    x = torch.randn(2, 4)
    port = torchport.port(models.Options(), (), {"x": x}, target="echo", out=tmp_path)
    assert port.check(kwargs={"x": torch.randn(3, 4)}).passed


def test_other_inputs_must_fit(made: Port, echo: EchoTarget) -> None:
    with pytest.raises(TorchportError, match="TP0208"):
        made.check(torch.randn(5, 7, 8))
    assert echo.prepared == 0


def test_constants_are_found_again_for_other_inputs(echo: EchoTarget, tmp_path: Path) -> None:
    port = torchport.port(models.Tensors(), torch.randn(2, 4), target="echo", out=tmp_path)
    assert port.check(torch.randn(3, 4)).passed


def test_a_layer_may_have_the_name_of_an_input(echo: EchoTarget, tmp_path: Path) -> None:
    class Lookup(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(10, 4)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            return self.words(words) + self.words(words + 1)

    assert torchport.port(Lookup(), torch.tensor([[1, 2]]), target="echo", out=tmp_path).check().passed


def test_a_layer_may_be_called_with_two_sizes(echo: EchoTarget, tmp_path: Path) -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(4)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.norm(x).sum() + self.norm(y).sum()

    args = (torch.randn(3, 4), torch.randn(2, 5, 4))
    assert torchport.port(Both(), args, target="echo", out=tmp_path, dynamic={}).check().passed


def test_a_model_that_keeps_state_is_told_of(echo: EchoTarget, tmp_path: Path) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls: torch.Tensor
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1)
            return x * 2

    report = torchport.port(Counting().eval(), torch.randn(3, 4), target="echo", out=tmp_path / "it").check()
    (note,) = report.notes
    assert report.passed and note.startswith("the model writes to calls when it is called")
    assert Port.open(tmp_path / "it").check().notes == report.notes
    still = torchport.port(nn.ReLU().eval(), torch.randn(3, 4), target="echo", out=tmp_path / "still").check()
    assert still.notes == ()


def test_a_model_without_weights(echo: EchoTarget, tmp_path: Path) -> None:
    port = torchport.port(nn.ReLU(), torch.randn(2, 4), target="echo", out=tmp_path)
    assert not (port.files.captures / "ReLU_weights.safetensors").exists()
    assert port.check().passed and port.check(torch.randn(3, 4)).passed


def test_a_wrong_layer_fails_and_is_named(made: Port, echo: EchoTarget) -> None:
    def spoilt(mode: str, values: Values) -> Values:
        return {key: value * 1.01 if key == "blocks.0.dense" else value for key, value in values.items()}

    echo.change = spoilt
    report = made.check()
    assert report.status == "fail" and report.first_divergence is not None
    assert report.first_divergence.layer == "blocks.0.dense"
    assert [found.text for found in report.first_divergence.suggestions] == [
        "the result is 1.01 times what it should be"
    ]
    assert made.check(rtol=0.1, atol=0.1).passed


def test_each_layer_is_reported_once_though_it_may_be_compared_again(made: Port, echo: EchoTarget) -> None:
    echo.change = lambda mode, values: {
        key: value + 1.0 if (mode, key) == ("chained", "Stack") else value for key, value in values.items()
    }
    events: list[Event] = []
    made.watch = events.append
    report = made.check(explain=False)
    assert report.first_divergence is not None and report.first_divergence.kind == "chained"
    judged = [event.layer.name for event in events if isinstance(event, LayerJudged)]
    assert judged == [layer.name for layer in report.layers]


def test_a_verdict_stands_when_its_cause_cannot_be_looked_for(
    made: Port, echo: EchoTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> Report:
        raise RuntimeError("no idea")

    events: list[Event] = []
    made.watch = events.append
    monkeypatch.setattr("torchport.explain.explanation.explained", broken)
    echo.change = lambda mode, values: {key: value + 1 for key, value in values.items()}
    report = made.check()
    assert report.status == "fail" and report.first_divergence is not None
    assert events[-1] == Message("the cause could not be found: RuntimeError: no idea")
    assert Report.from_json((made.folder / "report.json").read_text()) == report


def test_a_port_that_stops_never_passes(made: Port, echo: EchoTarget) -> None:
    echo.stopped = Stopped(message="killed")
    with pytest.raises(TorchportError, match="TP0601.*killed"):
        made.check()


def test_a_port_that_stops_at_a_todo_is_unsupported(made: Port, echo: EchoTarget) -> None:
    todo = Todo(op="aten.foo.default", layer="net", reason="write it")
    echo.stopped = Stopped(message="it came to a TODO", todo=todo)
    report = made.check()
    assert report.status == "unsupported"
    assert report.todos == (todo,)


def test_operations_that_nothing_maps_are_listed_and_nothing_is_built(
    echo: EchoTarget, tmp_path: Path
) -> None:
    echo.todos = (Todo(op="aten.foo.default", layer="head", source="m.py:3", reason="nothing maps it"),)
    port = torchport.port(models.Stack(), X, target="echo", out=tmp_path)
    report = port.check()
    assert report.status == "unsupported" and echo.prepared == 0
    assert report.todos[0].model_dump() == {
        "op": "aten.foo.default",
        "layer": "head",
        "source": "m.py:3",
        "reason": "nothing maps it",
    }


def test_a_model_on_meta_is_written_and_cannot_be_checked(echo: EchoTarget, tmp_path: Path) -> None:
    with torch.device("meta"):
        model = models.Stack()
    port = torchport.port(model, X, target="echo", out=tmp_path)
    assert port.artifact.folder.is_dir()
    with pytest.raises(TorchportError, match="TP0702.*meta"):
        port.check()


def test_options_reach_the_target_and_the_recording(echo: EchoTarget, tmp_path: Path) -> None:
    port = torchport.port(
        *(models.Stack(depth=1), X),
        target="echo",
        out=tmp_path,
        checks="ops",
        hints={"hidden": 8},
        dynamic="",
    )
    assert echo.given is not None and echo.given.model_dump() == {"checks": "ops", "hints": {"hidden": 8}}
    assert port.files.about.options == echo.given.model_dump()
    assert not port.graph.symbols
    with Trace(port.files.captured("trace")) as trace:
        assert "head/linear" in trace


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"target": "brick"}, "TP0402"),
        ({"target": "candle", "checks": "some"}, "TP0801"),
        ({"target": "echo", "brick": 1}, "TP0801"),
        ({"target": "echo", "dynamic": "x"}, "TP0106"),
        ({"target": "echo", "dynamic": {"x": (-1,)}}, "TP0106"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(
    echo: EchoTarget, tmp_path: Path, options: dict, code: str
) -> None:
    class Never(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise AssertionError("it ran")

    with pytest.raises(TorchportError, match=code):
        torchport.port(Never(), X, out=tmp_path / "port", **options)
    assert not (tmp_path / "port").exists()


@pytest.mark.parametrize(("rtol", "atol"), [(-1.0, None), (None, float("nan")), (float("inf"), 0.0)])
def test_a_tolerance_must_be_a_number_of_sense(made: Port, rtol: float | None, atol: float | None) -> None:
    with pytest.raises(TorchportError, match="TP0801"):
        made.check(rtol=rtol, atol=atol)


def test_the_default_directory_bears_the_models_name(
    echo: EchoTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    port = torchport.port(nn.ReLU(), X, target="echo")
    assert port.folder == Path("torchport-out/ReLU")
    assert (tmp_path / "torchport-out/ReLU/capture/ReLU_manifest.json").is_file()


# A port opened from its files


def test_a_port_is_proven_from_its_files_alone(made: Port) -> None:
    opened = Port.open(made.folder)
    assert opened.name == "net" and opened.check().passed
    with pytest.raises(TorchportError, match="TP0801.*no model"):
        opened.check(X)
    opened.model = made.model
    assert opened.check(torch.randn(4, 8)).passed
    assert Port.open(made.folder).name == "net", "a recording on other inputs is no port"


def test_a_port_may_be_called_again(echo: EchoTarget, tmp_path: Path) -> None:
    torchport.port(nn.ReLU(), X, target="echo", out=tmp_path, name="net_again")
    assert Port.open(tmp_path).check().passed


# What commands call


def test_names_are_fit_for_files() -> None:
    assert safe_name("my model/../x") == "my_model_x" and safe_name("///") == "model"


def test_a_recording_stays_inside_its_directory(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("import torch\ndef net():\n    return torch.nn.ReLU(), (torch.ones(2),)\n")
    summary = record_spec(
        f"{tmp_path / 'm.py'}:net",
        name="../up",
        out=tmp_path / "out",
        dynamic=None,
        hints=None,
        ops=False,
        watch=ignore,
    )
    assert summary["name"] == "up" and summary["status"] == "recorded"
    assert {path.parent for path in map(Path, summary["files"].values())} == {tmp_path / "out"}


def test_code_is_written_from_the_manifest_alone(tmp_path: Path) -> None:
    torchport.record(models.Stack(), X, name="net").save(tmp_path)
    for path in tmp_path.glob("*.safetensors"):
        path.unlink()
    result = codegen(
        tmp_path / "net_manifest.json",
        out=tmp_path / "net.rs",
        model="Tiny",
        analyze_only=False,
        options={"checks": "none"},
    )
    assert result["todos"] == [] and result["model"] == "Tiny"
    assert "pub struct Tiny" in (tmp_path / "net.rs").read_text()


# One real build: what export cannot follow, finished by hand


HAND = """        check!(self.probe => xs);
        let ys = self.dense.forward(xs)?.broadcast_mul(&self.scale)?;
        let ys = if ys.sum_all()?.to_scalar::<f32>()? > 0. { (ys * 3.)? } else { ys };
        check!(self.probe, ys)"""


@pytest.mark.builds
def test_code_with_todos_compiles_and_once_finished_by_hand_is_proven(tmp_path: Path) -> None:
    x = torch.randn(2, 4)
    port = torchport.port(models.Gated(), x, out=tmp_path, name="gated")
    listed = port.check().todos
    assert listed and listed[0].source is not None
    opened = Port.open(tmp_path)
    opened.model = port.model
    report = opened.check(x)
    assert report.status == "unsupported" and report.todos == listed, "with their layers and lines"
    source = tmp_path / "rust" / "src" / "model.rs"
    body = re.compile(r"(impl Module for Gate \{\s+fn forward\([^{]+\{\n).*?(\n    \}\n\})", re.DOTALL)
    text, count = body.subn(lambda match: match[1] + HAND + match[2], source.read_text())
    assert count == 1
    source.write_text(text)
    report = opened.check(torch.randn(2, 4))
    assert report.passed and report.compared >= len(report.layers)
