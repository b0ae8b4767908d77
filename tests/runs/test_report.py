"""The report's JSON is the contract; its verdict is never better than what was found."""

import json
import math
import sys
from pathlib import Path

import pytest

from torchport.errors import ConvertError, ParityError, UsageError
from torchport.parity.result import Parity, Program
from torchport.runs.report import Report

from ..report.sample import TODO, failing, measured, passing, report_of, unsupported

CONTRACT = {
    "schema",
    "status",
    "target",
    "model",
    "layers",
    "first_divergence",
    "todos",
    "outputs",
    "seconds",
    "report",
}
METRICS = {
    "max_abs",
    "mean_abs",
    "max_rel",
    "mse",
    "rmse",
    "cosine",
    "mismatch_pct",
    "worst_index",
}


def test_json_has_the_fields_of_the_contract() -> None:
    data = json.loads(failing(0.5).to_json())
    assert data.keys() >= CONTRACT
    assert data["schema"] == 1 and data["status"] == "fail"
    for layer in data["layers"]:
        assert layer.keys() >= {"name", "type", "own", "chained", "passed", "reason", "source"}
        assert layer["own"].keys() >= METRICS and layer["chained"].keys() >= METRICS
    assert data["outputs"].keys() >= METRICS
    assert data["first_divergence"].keys() >= {"layer", "source", "call", "what", "metrics"}
    assert list(data["seconds"]) == ["capture", "convert", "build", "run", "compare", "explain"]
    assert data["report"] == "out/report.json"


def test_json_of_todos_has_the_fields_of_the_contract() -> None:
    (todo, *_) = json.loads(unsupported().to_json())["todos"]
    assert todo == {
        "op": "aten.foo.default",
        "layer": "head",
        "source": "net.py:9",
        "reason": "nothing maps it",
    }


def test_json_is_valid_with_nan_and_inf_and_comes_back_the_same() -> None:
    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is not JSON")

    report = failing(math.nan)
    text = report.to_json()
    data = json.loads(text, parse_constant=refuse)
    assert data["first_divergence"]["metrics"]["ratio"] == "Infinity"
    assert Report.from_json(text) == report


def test_write_leaves_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.json"
    passing().write(path)
    assert Report.from_json(path.read_text()) == passing()
    assert list(path.parent.iterdir()) == [path]


def test_passed_is_the_status() -> None:
    assert passing().passed
    assert not failing().passed and not unsupported().passed


def test_a_port_with_todos_does_not_pass() -> None:
    proven = Parity(passed=True, rule="", layers=(), first_divergence=None, outputs=None, compared=1)
    assert report_of(proven).status == "pass"
    assert report_of(proven, todos=(TODO,)).status == "fail"


def test_raise_for_divergence_names_the_culprit_and_its_source() -> None:
    passing().raise_for_divergence()
    with pytest.raises(ParityError, match="TP0701: Net: head diverges: output: .*net.py:4"):
        failing(0.5).raise_for_divergence()
    with pytest.raises(AssertionError):
        failing(0.5).raise_for_divergence()


def test_raise_for_divergence_when_operations_are_missing() -> None:
    with pytest.raises(ConvertError, match="TP0401: Net: nothing maps aten.foo.default"):
        unsupported().raise_for_divergence()


def test_raise_for_divergence_when_nothing_was_compared() -> None:
    nothing = Report(status="fail", target="candle", model="Net")
    with pytest.raises(ParityError, match="TP0702"):
        nothing.raise_for_divergence()


def test_worst_layers_are_the_culprit_the_failed_and_the_nearest_to_the_limit() -> None:
    assert [layer.name for layer in failing(0.5).worst_layers(3)] == ["head", "tail", "encoder"]
    assert [layer.name for layer in passing().worst_layers(9)] == ["head", "encoder", "Net"]


def test_to_dataframe_has_a_row_a_layer() -> None:
    frame = passing().to_dataframe()
    assert list(frame["name"]) == ["encoder", "head", "blocks", "Net"]
    assert frame["own_max_abs"][0] == pytest.approx(1e-6, rel=0.1)
    assert math.isnan(frame["own_cosine"][2]) and frame["chained_cosine"][2] == 1.0
    assert frame["passed"].all() and frame["passed"].dtype == bool


def test_to_dataframe_keeps_nan_as_nan_and_says_that_the_layer_failed() -> None:
    frame = failing(math.nan).to_dataframe().set_index("name")
    assert not frame.loc["head", "passed"] and frame.loc["head", "own_ratio"] == math.inf
    assert "NaN on one side only" in frame.loc["head", "reason"]
    assert frame.loc["head", "own_mismatch_pct"] > 0


def test_to_dataframe_of_a_report_without_layers_has_the_columns() -> None:
    empty = unsupported().to_dataframe()
    assert len(empty) == 0 and list(empty.columns) == list(passing().to_dataframe().columns)
    assert {"name", "passed", "own_max_abs", "chained_cosine"} <= set(empty.columns)


def test_to_dataframe_without_pandas_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="TP0803") as caught:
        passing().to_dataframe()
    assert "pip install 'torchport[dataframe]'" in (caught.value.fix or "")


def test_html_escapes_what_comes_from_outside() -> None:
    html = passing().model_copy(update={"model": "<script>"})._repr_html_()
    assert "<script>" not in html and "&lt;script&gt;" in html
    assert "PASS" in html and "encoder" in html


def test_html_names_the_culprit() -> None:
    html = failing(0.5)._repr_html_()
    assert "FAIL" in html and "Culprit: <b>head</b>" in html and "net.py:4" in html


@pytest.mark.parametrize(("own_error", "is_noted"), [(0.0, False), (0.5, True)])
def test_what_is_behind_the_model_is_blamed_only_if_it_is_wrong_by_itself(
    own_error: float, is_noted: bool
) -> None:
    """An error of the model reaches what the program gives, which is no fault of what is done behind it."""
    program = Program(
        passed=False,
        own=measured("Net>0", own_error),
        chained=measured("Net>0", 0.5),
        reason="output of the program: drifts",
        source="main.rs:17",
    )
    culprit = failing(0.5).first_divergence
    parity = Parity(
        passed=False,
        rule="noise floor x 4",
        layers=failing(0.5).layers,
        first_divergence=culprit,
        outputs=None,
        program=program,
        compared=4,
    )
    assert any("behind the model" in note for note in report_of(parity).notes) is is_noted
