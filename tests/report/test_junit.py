"""JUnit XML that readers accept, whatever a layer is called, and that is red when the verdict is not a pass."""

from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st

from torchport.report.junit import render
from torchport.runs.report import Report

from .sample import failing, layer, passing, unsupported
from .views import EVERY, full, run_of, without_source

SCHEMA = xmlschema.XMLSchema(Path(__file__).with_name("junit.xsd"))


def suite(report: Report) -> Element:
    (found,) = ElementTree.fromstring(render(run_of(report)).encode())
    return found


def cases(report: Report) -> dict[str, Element]:
    return {case.attrib["name"]: case for case in suite(report).iter("testcase")}


@pytest.mark.parametrize("kind", EVERY)
def test_every_report_is_valid(kind: str) -> None:
    SCHEMA.validate(render(run_of(EVERY[kind])))


def test_the_schema_can_refuse() -> None:
    text = render(run_of(passing()))
    with pytest.raises(xmlschema.XMLSchemaValidationError):
        SCHEMA.validate(text.replace('tests="4"', 'tests="four"'))


@given(st.text())
def test_any_name_makes_valid_xml(name: str) -> None:
    named = passing().model_copy(
        update={"model": name, "layers": (layer("x", 0.0).model_copy(update={"name": name}),)}
    )
    SCHEMA.validate(render(run_of(named)))


@pytest.mark.parametrize("kind", EVERY)
def test_counts_are_those_of_the_cases_and_only_a_pass_is_green(kind: str) -> None:
    found = suite(EVERY[kind])
    for name, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        assert int(found.attrib[attribute]) == len(list(found.iter(name)))
    assert int(found.attrib["tests"]) == len(list(found.iter("testcase")))
    is_green = found.attrib["failures"] == "0" and found.attrib["errors"] == "0"
    assert is_green == (EVERY[kind].status == "pass")


def test_a_case_a_layer_and_properties_of_the_run() -> None:
    found = suite(passing())
    assert found.attrib["name"] == "Net to candle" and found.attrib["time"] == "6.500"
    properties = {one.attrib["name"]: one.attrib["value"] for one in found.iter("property")}
    assert properties == {"status": "pass", "target": "candle", "model": "Net", "rule": "noise floor x 4"}
    case = cases(passing())["encoder"]
    assert case.attrib["classname"] == "torch.nn.Linear"
    assert (case.attrib["file"], case.attrib["line"]) == ("net.py", "7")
    assert list(cases(passing())) == ["encoder", "head", "blocks", "Net"]


def test_what_has_nothing_to_judge_is_skipped_and_not_passed() -> None:
    (skipped,) = cases(passing())["blocks"]
    assert skipped.tag == "skipped" and skipped.attrib["message"] == "returns head as it is"


def test_the_culprit_comes_first_with_all_that_is_known() -> None:
    name, case = next(iter(cases(full()).items()))
    assert name == "head"
    (failure,) = case
    assert failure.attrib["type"] == "culprit" and failure.attrib["message"].startswith("culprit: output: ")
    for fact in (
        "alone: max 0.5 at [1, 2]",
        "aten.layer_norm.default at lib/norms.py:12",
        "explains 99.9 %",
        "@@",
    ):
        assert fact in (failure.text or "")
    assert (case.attrib["file"], case.attrib["line"]) == ("lib/norms.py", "12")
    assert list(cases(full())) == ["head", "encoder", "tail", "Net"], "and is not listed again"


def test_other_layers_that_diverge_fail_with_their_numbers() -> None:
    (failure,) = cases(full())["tail"]
    assert failure.attrib["type"] == "diverges" and "outside" in failure.attrib["message"]
    assert "max 0.5 at [1, 2]" in (failure.text or "") and "net.py:4" in (failure.text or "")


def test_todos_are_errors_each_with_a_name_of_its_own() -> None:
    found = cases(unsupported())
    assert len(found) == 12 and "head: aten.foo.default" in found and "head: aten.foo.default (12)" in found
    (error,) = found["head: aten.foo.default"]
    assert (
        error.tag == "error" and error.attrib["message"] == "nothing maps aten.foo.default: nothing maps it"
    )
    assert found["head: aten.foo.default"].attrib["line"] == "9"


def test_a_layer_without_a_line_has_that_of_the_layer_around_it() -> None:
    report = failing(0.5)
    layers = (without_source(report.layers[0], "Net"), *report.layers[1:])
    case = cases(report.model_copy(update={"layers": layers}))["encoder"]
    assert (case.attrib["file"], case.attrib["line"]) == ("net.py", "3")


def test_a_layer_without_any_line_has_no_file() -> None:
    report = passing()
    lost = without_source(report.layers[0], "encoder")
    case = cases(report.model_copy(update={"layers": (lost,)}))["encoder"]
    assert "file" not in case.attrib and "line" not in case.attrib


def test_characters_that_xml_cannot_hold_are_written_out() -> None:
    assert "\\x1b[31m" in render(run_of(EVERY["nasty"])) and "\\ufffe" in render(run_of(EVERY["nasty"]))
