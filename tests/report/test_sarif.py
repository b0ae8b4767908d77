"""SARIF 2.1.0 by its own JSON schema, with the places and rules that code scanning needs."""

import io
import json
import pickle
import sqlite3
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from torchport.errors import CODES
from torchport.report.sarif import SCHEMA, render
from torchport.runs.report import Report

from .sample import passing, unsupported
from .views import EVERY, full, run_of, without_source


class _PlainData(pickle.Unpickler):
    """Reads dicts, strings and bytes, and makes no object of any class."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is not data")


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """The schema as json.schemastore.org has it, from the copy that the package schemastore brings along."""
    database = distribution("schemastore").locate_file("schemastore/cache.sqlite")
    with sqlite3.connect(f"{Path(str(database)).as_uri()}?immutable=1", uri=True) as connection:
        answers = connection.execute("select value from responses where instr(value, ?)", (SCHEMA.encode(),))
        read = [_PlainData(io.BytesIO(value)).load() for (value,) in answers]
    (found,) = [answer["_content"] for answer in read if answer["url"] == SCHEMA]
    return json.loads(found)


def log(report: Report) -> dict[str, Any]:
    return json.loads(render(run_of(report)))


def results(report: Report) -> list[dict[str, Any]]:
    (run,) = log(report)["runs"]
    return run["results"]


def places(result: dict[str, Any]) -> list[tuple[str, int]]:
    physical = [one["physicalLocation"] for one in result["locations"] if "physicalLocation" in one]
    return [(one["artifactLocation"]["uri"], one["region"]["startLine"]) for one in physical]


@pytest.mark.parametrize("kind", EVERY)
def test_every_report_is_valid(kind: str, schema: dict[str, Any]) -> None:
    jsonschema.validate(log(EVERY[kind]), schema)


def test_the_schema_can_refuse(schema: dict[str, Any]) -> None:
    wrong = log(full())
    wrong["runs"][0]["results"][0]["level"] = "dreadful"
    with pytest.raises(jsonschema.ValidationError, match="dreadful"):
        jsonschema.validate(wrong, schema)


def test_a_pass_has_no_results() -> None:
    (run,) = log(passing())["runs"]
    assert run["results"] == [] and run["invocations"] == [{"executionSuccessful": True}]
    assert run["automationDetails"]["id"] == "torchport/candle/Net/"


def test_rules_are_torchports_codes_and_every_result_has_one() -> None:
    (run,) = log(full())["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["TP0701", "TP0702", "TP0401"]
    for rule in rules:
        assert rule["shortDescription"]["text"] == CODES[rule["id"]].title
    for kind in EVERY.values():
        assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in results(kind))


def test_the_culprit_is_an_error_at_its_line_and_other_layers_are_warnings() -> None:
    culprit, victim = results(full())
    assert (culprit["ruleId"], culprit["level"]) == ("TP0701", "error")
    assert places(culprit) == [("lib/norms.py", 12)]
    assert culprit["locations"][0]["logicalLocations"] == [{"fullyQualifiedName": "head", "kind": "module"}]
    (related,) = culprit["relatedLocations"]
    assert related["physicalLocation"]["artifactLocation"]["uri"] == "net.py"
    for fact in (
        "head diverges",
        "max 0.5 at [1, 2]",
        "eps is 1e-05 where the model has 1e-12",
        "@@ -30 +30 @@",
    ):
        assert fact in culprit["message"]["text"]
    assert (victim["ruleId"], victim["level"], places(victim)) == ("TP0701", "warning", [("net.py", 4)])
    assert victim["message"]["text"].startswith("tail diverges too: ")


def test_todos_are_results() -> None:
    first, *_ = results(unsupported())
    assert (first["ruleId"], first["level"], places(first)) == ("TP0401", "error", [("net.py", 9)])
    assert first["message"]["text"] == "nothing maps aten.foo.default in head: nothing maps it"


@pytest.mark.parametrize("kind", EVERY)
def test_only_a_pass_has_no_error(kind: str) -> None:
    (run,) = log(EVERY[kind])["runs"]
    told = [*run["results"], *run["invocations"][0].get("toolExecutionNotifications", [])]
    assert any(one["level"] == "error" for one in told) == (EVERY[kind].status != "pass")


def test_a_file_elsewhere_is_a_file_uri_and_names_are_quoted() -> None:
    report = passing()
    wrong = report.layers[0].model_copy(update={"passed": False, "source": "/opt/my nets/a#b.py:3"})
    near = report.layers[1].model_copy(update={"passed": False, "source": "my nets/100%.py:4"})
    found = results(report.model_copy(update={"status": "fail", "layers": (wrong, near)}))
    assert [places(one) for one in found] == [
        [("file:///opt/my%20nets/a%23b.py", 3)],
        [("my%20nets/100%25.py", 4)],
    ]


def test_without_a_line_only_the_layer_is_named() -> None:
    report = passing()
    lost = without_source(report.layers[0], "gone").model_copy(update={"passed": False})
    (result,) = results(report.model_copy(update={"status": "fail", "layers": (lost,)}))
    assert places(result) == []
    assert result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "encoder"


def test_the_same_layer_has_the_same_fingerprint_whatever_its_numbers() -> None:
    def prints(report: Report) -> list[str]:
        return [one["partialFingerprints"]["torchportLayer/v1"] for one in results(report)]

    moved = full().layers[2].model_copy(update={"source": "net.py:99", "reason": "otherwise"})
    other = full().model_copy(update={"layers": (*full().layers[:2], moved)})
    assert prints(full()) == prints(other)
    assert len(set(prints(full()))) == 2
