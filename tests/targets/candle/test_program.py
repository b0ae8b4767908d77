"""The whole program of a port: what it does behind its model, the calls that it makes, the inputs that it is given."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import torchport
from torchport import Port, Report
from torchport.cli import main
from torchport.errors import ReportError, UsageError
from torchport.runs.run import Run

from ..conformance import model_and_inputs

pytestmark = [pytest.mark.slow, pytest.mark.builds]
MODEL, MAIN = "model.rs", "main.rs"
END, HEAD = "check!(self.probe, (ys, x))", ".apply(&self.head)?"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, cargo: None) -> Port:
    model, inputs = model_and_inputs()
    return torchport.port(model, inputs, target="candle", out=tmp_path_factory.mktemp("port"), name="net")


@contextmanager
def edited(port: Port, file: str, old: str, new: str) -> Iterator[None]:
    source = port.artifact.folder / "src" / file
    before = source.read_text()
    assert before.count(old) == 1, before
    source.write_text(before.replace(old, new))
    try:
        yield
    finally:
        source.write_text(before)


def checked(port: Port, file: str, old: str, new: str) -> Report:
    with edited(port, file, old, new):
        return port.check()


def test_a_scale_behind_the_check_of_the_model_fails_and_no_layer_is_blamed(made: Port) -> None:
    report = checked(made, MODEL, END, f"let (ys, x) = {END}?; Ok(((ys * 1.001)?, x))")
    found = report.first_divergence
    assert report.status == "fail" and all(layer.passed for layer in report.layers)
    assert found is not None and (found.kind, found.layer) == ("returned", "Net")
    assert found.what == "output 0 of the program" and "1.001" in "".join(found.edits)
    assert report.outputs is not None and report.outputs.max_abs > 1e-4


def test_a_scale_in_the_program_fails_and_every_view_names_the_place(
    made: Port, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(made.folder)
    with edited(made, MAIN, "Ok(vec![output_0, output_1])", "Ok(vec![output_0, (output_1 * 1.001)?])"):
        assert main(["check", folder]) == 1
        report = Run.open(folder).report
        with pytest.raises(ReportError, match=r"TP0343.*no operation to reduce"):
            made.minify()
    found = report.first_divergence
    assert report.status == "fail" and all(layer.passed for layer in report.layers)
    assert found is not None and found.kind == "returned" and found.what == "output 1 of the program"
    file, _, line = (found.source or "").rpartition(":")
    assert Path(file) == made.artifact.folder / "src" / MAIN and int(line) > 10
    text = capsys.readouterr().out
    assert "every layer agrees, but the program gives something else than Net" in text
    assert (
        "the program behind Net" in text
        and "main.rs" in text
        and "+        Ok(vec![output_0, (output_1 *" in text
    )
    for format in ("markdown", "junit", "sarif", "github"):
        assert main(["report", folder, "--format", format]) == 1
        shown = capsys.readouterr().out
        assert "the program behind" in shown or "output 1 of the program" in shown, format
        assert "main.rs" in shown, format


def test_outputs_in_another_order_or_number_fail(made: Port) -> None:
    swapped = checked(made, MAIN, "vec![output_0, output_1]", "vec![output_1, output_0]")
    assert swapped.first_divergence is not None and swapped.first_divergence.kind == "returned"
    one = checked(made, MAIN, "vec![output_0, output_1]", "{ let _ = output_1; vec![output_0] }")
    assert one.first_divergence is not None
    assert "gives 1 tensors in the end, and the model 2" in one.first_divergence.reason


def test_a_call_once_more_than_the_model_makes_is_found_though_no_value_is_wrong(made: Port) -> None:
    report = checked(made, MODEL, HEAD, f"{HEAD}; let _ = x{HEAD}")
    found = report.first_divergence
    assert report.status == "fail" and found is not None
    assert (found.layer, found.what) == ("Net", "call head#1")
    assert found.reason == "the port calls head more often than the model does, which calls it once"
    assert found.suggestions == () and found.operation is None and "head" in "".join(found.edits)


def test_a_call_that_the_model_makes_once_more_is_found(made: Port) -> None:
    found = checked(made, MODEL, "self.blocks[0].forward(&ys)?", "ys.clone()").first_divergence
    assert found is not None and found.layer == "Net"
    assert found.reason == "the port never came to call blocks.0#1"


def test_the_unedited_port_passes_with_its_program(made: Port) -> None:
    report = made.check()
    assert report.passed and report.program is not None and report.program.passed
    assert not any("in the end" in note for note in report.notes)


# Inputs


def run_program(port: Port, tensors: dict[str, torch.Tensor], folder: Path) -> tuple[int, str]:
    """The program as a user runs it; gives its status and what it says."""
    given, results = folder / "inputs.safetensors", folder / "outputs.safetensors"
    save_file(tensors, given)
    port.artifact.prepare(lambda text: None)
    command = [str(port.artifact.program), str(given), str(results)]  # type: ignore[attr-defined]
    ended = subprocess.run(command, cwd=port.artifact.folder, capture_output=True, text=True)
    if ended.returncode != 0:
        assert sorted(path.name for path in folder.iterdir()) == ["inputs.safetensors"], (
            "nothing is half-written"
        )
        assert "panicked at" not in ended.stderr
    return ended.returncode, ended.stderr


def right() -> dict[str, torch.Tensor]:
    _, (x, scale) = model_and_inputs()
    return {"x": x, "scale": scale}


def test_the_program_gives_what_pytorch_gives(made: Port, tmp_path: Path) -> None:
    model, inputs = model_and_inputs()
    assert run_program(made, right(), tmp_path)[0] == 0
    found = load_file(tmp_path / "outputs.safetensors")
    for index, expected in enumerate(model(*inputs)):
        torch.testing.assert_close(found[f"output_{index}"], expected.detach())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"x": torch.zeros(24)}, "x: it is f32 [24], not f32 [batch, cfg.size]"),
        ({"x": torch.zeros(2, 24).double()}, "x: it is f64 [2, 24], not f32 [batch, cfg.size]"),
        ({"x": torch.zeros(2, 23)}, "x: it is f32 [2, 23], not f32 [batch, cfg.size]: axis 1 has to be 24"),
        ({"scale": None}, "scale: there is no such tensor"),
        ({"other": torch.zeros(1)}, "other: the model takes no such tensor"),
        ({"x": torch.zeros(2, 24, dtype=torch.complex64)}, "x: its dtype is C64"),
    ],
    ids=["rank", "dtype", "size", "missing", "extra", "complex"],
)
def test_inputs_that_do_not_fit_are_named_with_what_was_expected(
    made: Port, tmp_path: Path, change: dict[str, torch.Tensor | None], said: str
) -> None:
    tensors = {name: value for name, value in (right() | change).items() if value is not None}
    status, message = run_program(made, tensors, tmp_path)
    assert status == 2 and said in message
    assert message.startswith("error: ") and "the model takes:\n  x: f32 [batch, cfg.size]" in message


def test_a_size_that_the_model_itself_refuses_is_an_error_and_no_panic(made: Port, tmp_path: Path) -> None:
    late = "let x = self.blocks[0].forward(&ys.narrow(0, 0, ys.dim(0)? - 3)?)?"
    with edited(made, MODEL, "let x = self.blocks[0].forward(&ys)?", late):
        status, message = run_program(made, right() | {"x": torch.zeros(2, 24)}, tmp_path)
    assert status == 2 and "the model does not run on x f32 [2, 24], scale f32 [24]" in message
    assert "overflow" in message


def test_arguments_that_make_no_sense_end_with_the_usage(made: Port) -> None:
    made.artifact.prepare(lambda text: None)
    ended = subprocess.run([str(made.artifact.program), "one"], capture_output=True, text=True)  # type: ignore[attr-defined]
    assert ended.returncode == 2 and "usage: MODEL" in ended.stderr


def test_an_edited_program_without_checks_cannot_be_proven(tmp_path: Path) -> None:
    model, inputs = model_and_inputs()
    port = torchport.port(model, inputs, target="candle", out=tmp_path, name="net", checks="none")
    swapped = edited(port, MAIN, "vec![output_0, output_1]", "vec![output_1, output_0]")
    with swapped, pytest.raises(UsageError, match=r"TP0804.*main\.rs was edited"):
        port.check()


class DecidedBySize(torch.nn.Module):
    """Decides by two sizes, and takes the steps of a third one by one, the last first."""

    def forward(self, x: torch.Tensor, wide: torch.Tensor) -> torch.Tensor:
        ys = (x * 2).cumsum(-1)
        state = ys[:, 0]
        for step in reversed(range(ys.shape[1])):
            state = state * 0.5 + ys[:, step] * (step + 1)
        if x.shape[0] % 2:
            state = state + 1
        return state + 1 if wide.shape[0] > 3 else state - 1


def test_sizes_that_the_model_was_not_recorded_for_are_refused_by_program_and_library(
    tmp_path: Path,
) -> None:
    port = torchport.port(
        DecidedBySize(),
        (torch.randn(3, 5, 4), torch.randn(6, 2)),
        target="candle",
        out=tmp_path / "port",
        name="net",
        dynamic="x:0,wide:0",
    )
    assert port.check().passed
    assert port.check((torch.randn(7, 5, 4), torch.randn(4, 2))).passed

    def said(x: tuple[int, ...], wide: tuple[int, ...], folder: str) -> tuple[int, str]:
        (tmp_path / folder).mkdir()
        return run_program(port, {"x": torch.randn(x), "wide": torch.randn(wide)}, tmp_path / folder)

    assert said((5, 5, 4), (4, 2), "right") == (0, "")
    status, message = said((4, 5, 4), (4, 2), "even")
    assert status == 2 and "stands for its model where batch % 2 != 0" in message
    status, message = said((3, 5, 4), (3, 2), "short")
    assert status == 2 and "batch_2 has to be 4 at least" in message
    main_rs = (port.artifact.folder / "src" / MAIN).read_text()
    table = main_rs[main_rs.index("let inputs = ") : main_rs.index(";", main_rs.index("let inputs = "))]
    with edited(port, MAIN, table, 'let inputs = ["x", "wide"]'):
        status, message = said((3, 5, 4), (3, 2), "library: short")
        assert status == 2 and "stands for its model where batch_2 >= 4" in message
        status, message = said((3, 7, 4), (4, 2), "library: long")
        assert status == 2 and "made for length 5 along dimension 1, not 7" in message
