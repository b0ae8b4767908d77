"""`torchport quantize`: ports run on their blocks, what is measured is what happens, and bad questions are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch

from torchport.blocks.formats import FORMATS, dequantise, quantise, rounded
from torchport.cli import main
from torchport.errors import UsageError
from torchport.porting.port import Port, port
from torchport.quant.engine import Task, run_tasks
from torchport.quant.measuring import known_importance, logits_drift, mix_of, subject_of
from torchport.quant.results import QuantReport
from torchport.quant.running import Asked, quantize_port

MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(40, 64)
        self.fc1, self.fc2 = nn.Linear(64, 256), nn.Linear(256, 64)
        self.norm = nn.LayerNorm(64)
        self.head = nn.Linear(64, 40, bias=False)

    def forward(self, ids):
        hidden = self.table(ids)
        return self.head(self.norm(hidden + self.fc2(nn.functional.gelu(self.fc1(hidden)))))


def net():
    torch.manual_seed(0)
    return Net().eval(), (torch.arange(24).reshape(2, 12),)
"""


SCHEMES = ("q8_0", "q4_0", "q4_k+q8_0", "awq+q8_0")
ASKED = Asked(schemes=SCHEMES, sensitivity=True, budget=25_000, by_importance=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, cargo: str) -> Iterator[Port]:
    folder = tmp_path_factory.mktemp("quantize")
    namespace: dict[str, Any] = {}
    (folder / "net.py").write_text(MODEL)
    exec(compile(MODEL, folder / "net.py", "exec"), namespace)
    model, args = namespace["net"]()
    yield port(model, args, name="net", out=folder / "out")


@pytest.fixture(scope="module")
def report(made: Port) -> QuantReport:
    return quantize_port(made, ASKED, watch=lambda _: None)


def emulated(made: Port, mix: dict[str, str], importance: dict[str, Any]) -> torch.Tensor:
    """What the model computes in PyTorch with the weights that the blocks stand for."""
    assert made.model is not None
    copy = type(made.model)()
    state = dict(made.model.state_dict())
    for name, form in mix.items():
        state[name] = torch.from_numpy(rounded(name, state[name].numpy(), form, importance.get(name)))
    copy.load_state_dict(state)
    with torch.no_grad():
        return copy.eval()(torch.arange(24).reshape(2, 12))


def test_the_drift_is_that_of_the_weights_in_the_blocks(made: Port, report: QuantReport) -> None:
    subject = subject_of(made)
    importance = dict(known_importance(subject))
    golden = made.model(torch.arange(24).reshape(2, 12)).detach()
    for scheme in report.schemes:
        found = emulated(made, mix_of(scheme.scheme, subject.chosen), importance)
        mse = float((found - golden).double().square().mean())
        # candle rounds activations to 8 bits, too, which is about what q8_0 does to weights.
        rounding = 3 * report.schemes[0].outputs.mse
        assert abs(scheme.outputs.mse - mse) < 0.25 * mse + rounding, scheme.scheme
        assert scheme.logits is not None
        exact = logits_drift(golden, found)
        assert abs(scheme.logits.kl - exact.kl) < 0.5 * exact.kl + 1e-4


def test_fewer_bits_drift_more_and_each_layer_says_how_much(report: QuantReport) -> None:
    by_scheme = {scheme.scheme: scheme for scheme in report.schemes}
    assert report.status == "done" and report.port is not None and report.port.sqnr_db > 100
    assert by_scheme["q8_0"].outputs.sqnr_db > by_scheme["q4_0"].outputs.sqnr_db + 10
    assert by_scheme["q8_0"].bytes > by_scheme["q4_0"].bytes
    layers = {layer.layer: layer for layer in by_scheme["q4_0"].layers}
    assert set(layers) == {"table", "fc1", "fc2", "head"}
    for layer in layers.values():
        assert layer.own is not None and layer.chained is not None and layer.note is None
        assert 15 < layer.weight_sqnr_db < 30 and 10 < layer.own.sqnr_db < 30
        assert layer.chained.mse >= 0.5 * layer.own.mse


def test_a_table_drifts_as_its_rows_do(made: Port, report: QuantReport) -> None:
    (table,) = [layer for layer in report.schemes[1].layers if layer.layer == "table"]
    rows = made.model.table.weight.detach().numpy()  # type: ignore[union-attr]
    error = dequantise(quantise("w", rows, FORMATS["q4_0"]), FORMATS["q4_0"])[:24] - rows[:24]
    assert table.own is not None and table.own.mse == pytest.approx(float((error**2).mean()), rel=1e-5)


def test_what_does_not_fit_takes_the_stand_in(report: QuantReport) -> None:
    formats = {layer.layer: layer.format for layer in report.schemes[2].layers}
    assert formats == {"table": "q8_0", "fc1": "q8_0", "fc2": "q4_k", "head": "q8_0"}


def test_awq_is_measured_as_the_floats_that_it_stands_for(report: QuantReport) -> None:
    layers = {layer.layer: layer for layer in report.schemes[3].layers}
    assert layers["fc2"].format == "awq" and layers["fc2"].note is not None and "floats" in layers["fc2"].note
    assert layers["fc1"].format == "q8_0" and layers["fc1"].note is None
    assert layers["fc2"].bytes == 64 * 256 * (4 + 20 / 128) / 8
    plain = next(layer for layer in report.schemes[1].layers if layer.layer == "fc2")
    assert (
        layers["fc2"].own is not None
        and plain.own is not None
        and layers["fc2"].own.sqnr_db > plain.own.sqnr_db - 2
    )


def test_the_file_is_read_by_the_gguf_package(report: QuantReport, made: Port) -> None:
    assert report.schemes[1].file is not None
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(report.schemes[1].file).tensors}
    assert set(tensors) == set(made.model.state_dict())  # type: ignore[union-attr]
    assert (
        tensors["fc1.weight"].tensor_type.name == "Q4_0" and tensors["norm.weight"].tensor_type.name == "F32"
    )
    assert sum(tensor.n_bytes for tensor in tensors.values()) == report.schemes[1].bytes


def test_weights_are_ranked_by_what_they_cost_alone(report: QuantReport) -> None:
    assert [one.mse for one in report.sensitivity] == sorted(
        (one.mse for one in report.sensitivity), reverse=True
    )
    assert {one.layer for one in report.sensitivity} == {"table", "fc1", "fc2", "head"}
    whole = report.schemes[1].outputs.mse
    assert 0.4 * whole < sum(one.mse for one in report.sensitivity) < 2.5 * whole


def test_the_plan_keeps_to_its_bytes_and_beats_a_scheme_of_its_size(report: QuantReport) -> None:
    assert report.plan is not None and report.plan.met and report.plan.drift is not None
    assert report.plan.drift.bytes <= 25_000 < 1.1 * report.schemes[1].bytes
    assert report.plan.drift.outputs.mse < report.schemes[1].outputs.mse


def test_what_was_measured_is_not_measured_again(made: Port, report: QuantReport) -> None:
    said: list[str] = []
    again = quantize_port(made, ASKED, watch=lambda event: said.append(str(event)))
    assert again == report and not any(" of " in text and "q4_0" in text for text in said)


@pytest.mark.parametrize("spoiled", ["another choice", "gone"])
def test_a_file_that_is_not_the_one_that_was_measured_is_written_again(
    made: Port, report: QuantReport, spoiled: str
) -> None:
    file = Path(str(report.schemes[1].file))
    measured = file.read_bytes()
    if spoiled == "gone":
        file.unlink()
    else:
        other = replace(ASKED, schemes=("q4_0",), by_importance=False, sensitivity=False, budget=None)
        quantize_port(made, other, watch=lambda _: None)
        assert file.read_bytes() != measured
    said: list[str] = []
    again = quantize_port(made, ASKED, watch=lambda event: said.append(str(event)))
    assert again == report and not any(" of " in text and "q4_0" in text for text in said)
    assert file.read_bytes() == measured


def test_a_worker_that_has_only_the_folder_measures_the_same(made: Port, report: QuantReport) -> None:
    from torchport.quant.engine import _opened_and_measured

    mix = mix_of("q4_0", subject_of(made).chosen)
    task = Task(str(made.files.path), "q4_0", tuple(mix.items()), True, True)
    found = type(report.schemes[1]).model_validate_json(_opened_and_measured(task))
    assert found == report.schemes[1].model_copy(update={"file": None})


def test_local_jobs_give_results_in_the_order_of_the_tasks(made: Port) -> None:
    subject = subject_of(made)
    tasks = [
        Task(str(made.files.path), f"only {name}", ((name, "q5_1"),), False, False)
        for name in subject.chosen.candidates
    ]
    found = run_tasks(tasks, subject, {}, jobs=3)
    assert [drift.scheme for drift in found] == [task.scheme for task in tasks]


@pytest.mark.zoo
def test_ray_gives_the_same_table(made: Port, report: QuantReport, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        shutil.rmtree(made.files.path / "measured")
        again = quantize_port(made, replace(ASKED, engine="ray"), watch=lambda _: None)
    finally:
        ray.shutdown()
    assert again == report


def test_ray_that_is_missing_is_named(made: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchport.fan_out.importlib.util.find_spec", lambda _: None)
    asked = Asked(schemes=("q5_0",), engine="ray")
    with pytest.raises(UsageError, match="ray, which is not installed") as caught:
        quantize_port(made, asked, watch=lambda _: None)
    assert caught.value.fix is not None and "torchport[ray]" in caught.value.fix


PROJECTING = """
import torch
from torch import nn


class Projection(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(128, 128) / 8), nn.Parameter(torch.zeros(128))

    def forward(self, xs):
        return torch.addmm(self.bias, xs.reshape(-1, 128), self.weight).reshape(xs.shape)


class Projecting(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.projection = nn.Embedding(40, 128), Projection()
        self.head = nn.Linear(128, 40, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids):
        return self.head(self.projection(self.table(ids)))


def projecting():
    torch.manual_seed(0)
    return Projecting().eval(), (torch.arange(24).reshape(2, 12),)
"""


@pytest.mark.parametrize("by_importance", [False, True])
def test_blocks_of_a_matrix_that_has_its_inputs_first_are_of_its_outputs(
    by_importance: bool, tmp_path: Path, cargo: str
) -> None:
    namespace: dict[str, Any] = {}
    (tmp_path / "projecting.py").write_text(PROJECTING)
    exec(compile(PROJECTING, tmp_path / "projecting.py", "exec"), namespace)
    model, args = namespace["projecting"]()
    made = port(model, args, name="projecting", out=tmp_path / "out")
    asked = Asked(schemes=("q4_0+f32",), budget=1e6, by_importance=by_importance)
    scheme = quantize_port(made, asked, watch=lambda _: None).schemes[0]
    subject = subject_of(made)
    importance = known_importance(subject) if by_importance else {}
    golden = model(*args)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name in subject.chosen.candidates:
                rows = (weight.T if name == "projection.weight" else weight).contiguous().numpy()
                made_of = torch.from_numpy(rounded(name, rows, "q4_0", importance.get(name)))
                weight.copy_(made_of.T if name == "projection.weight" else made_of)
        mse = float((model(*args) - golden).double().square().mean())
    # candle rounds what it multiplies with blocks to 8 bits.
    assert scheme.outputs.mse == pytest.approx(mse, rel=0.05)
    assert {layer.layer for layer in scheme.layers} == {"table", "projection"}


# The command line


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "net.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return "net.py:net"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--schemes", "q4"], "there is no format 'q4'"),
        (["--schemes", ""], "--schemes is empty"),
        (["--schemes", "f32"], "puts nothing in blocks"),
        (["--schemes", "awq"], "its rows are looked up"),
        (["--schemes", "q4_k"], "cannot be q4_k: its rows have 64 weights"),
        (["--budget-mb", "1", "--max-drift", "0.1"], "do not go together"),
        (["--budget-mb", "nan"], "--budget-mb"),
        (["--budget-mb", "inf"], "--budget-mb must be a number above 0"),
        (["--max-drift", "inf"], "--max-drift must be a number above 0"),
        (["--plot", "x.pdf"], "a plot is .html, .svg, .png"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused_before_anything_is_built(
    spec: str, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quantize", spec, *options]) == 2
    out, err = capsys.readouterr()
    assert message in err and out == "" and "Traceback" not in err


OF_ANOTHER_RUN = ("report.json", "report.html", "quantization.json", "quant/q4_0.gguf")


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A folder with what a run leaves."""
    folder = tmp_path / "finished"
    for name in OF_ANOTHER_RUN:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name} as it was")
    return folder


def test_a_run_that_fails_leaves_one_that_was_there_as_it_was(
    spec: str, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no cargo in this test, so that the port is written and cannot be proven."""
    assert main(["quantize", spec, "--out", str(finished), "--force"]) == 2
    assert "cargo" in capsys.readouterr().err
    assert sorted(path.name for path in finished.iterdir() if path.is_file()) == sorted(OF_ANOTHER_RUN[:3])
    assert [path.name for path in (finished / "quant").iterdir()] == ["q4_0.gguf"]
    assert all((finished / name).read_text() == f"{name} as it was" for name in OF_ANOTHER_RUN)


def test_what_was_found_of_another_port_goes_with_it(finished: Path) -> None:
    port(torch.nn.Linear(3, 2), (torch.zeros(1, 3),), out=finished)
    assert not any((finished / name).exists() for name in OF_ANOTHER_RUN)


def test_a_model_without_matrices_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "norm.py").write_text(
        "import torch\ndef norm():\n    return torch.nn.LayerNorm(8).eval(), (torch.randn(2, 8),)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["quantize", "norm.py:norm"]) == 2
    assert "no matrix" in capsys.readouterr().err


def test_logits_that_are_the_same_do_not_diverge_and_nan_never_passes() -> None:
    logits = torch.randn(2, 3, 9)
    same = logits_drift(logits, logits + 5)
    assert same.kl == pytest.approx(0, abs=1e-9) and same.top1 == 1
    other = logits.clone()
    other[0, 0, 0] = float("nan")
    assert logits_drift(logits, other).kl != logits_drift(logits, other).kl
    p, q = torch.softmax(logits, -1), torch.softmax(-logits, -1)
    assert logits_drift(logits, -logits).kl == pytest.approx(
        float((p * (p / q).log()).sum(-1).mean()), rel=1e-5
    )


def test_the_report_is_json_with_its_schema(report: QuantReport) -> None:
    data = json.loads(report.model_dump_json())
    assert data["schema"] == 1 and data["status"] == "done"
    assert QuantReport.model_validate_json(report.model_dump_json()) == report
    assert {left["reason"] for left in data["floats"]} == {"parameter with 1 axis"}
