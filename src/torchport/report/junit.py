"""A run as JUnit XML, which CI systems show as tests: one suite for the run, one test case for each layer.

In: a `Run`. Out: XML. The culprit comes first. A layer that has nothing of its own to judge is skipped, and each
operation that nothing maps is a test case with an error.
"""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from torchport.parity.result import Layer
from torchport.report import phrases
from torchport.report.places import Place, place_of_culprit, place_of_layer
from torchport.runs.report import Report
from torchport.runs.run import Run

_NOT_XML = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2029\u202f-\u2065\u206a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)


def render(run: Run) -> str:
    report = run.report
    suite = Element("testsuite", name=_xml(f"{report.model} to {report.target}"))
    _properties(suite, report)
    culprit = None if report.first_divergence is None else report.first_divergence.layer
    if report.first_divergence is not None:
        _culprit(suite, report)
    for layer in report.layers:
        if layer.name != culprit:
            _layer(suite, report, layer)
    _todos(suite, report)
    if not report.passed and not _count(suite, "failure") and not _count(suite, "error"):
        # No other test case shows the failure: nothing was compared, or the run ended with an error.
        case = _case(suite, "torchport.verdict", report.model, None)
        SubElement(case, "error", type=report.status, message=_xml(phrases.headline(report)))
    for name in ("failure", "error"):
        suite.set(f"{name}s", str(_count(suite, name)))
    suite.set("skipped", str(_count(suite, "skipped")))
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("time", f"{sum(report.seconds.values()):.3f}")
    root = Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _properties(suite: Element, report: Report) -> None:
    properties = SubElement(suite, "properties")
    known = {"status": report.status, "target": report.target, "model": report.model, "rule": report.rule}
    for name, value in known.items():
        if value is not None:
            SubElement(properties, "property", name=name, value=_xml(value))


def _culprit(suite: Element, report: Report) -> None:
    divergence = report.first_divergence
    assert divergence is not None
    case = _case(suite, divergence.type, divergence.layer, place_of_culprit(report))
    message = f"culprit: {phrases.culprit(divergence)}"
    failure = SubElement(case, "failure", type="culprit", message=_xml(message))
    lines = [f"{label}: {fact}" for label, fact in phrases.facts(report)]
    failure.text = _xml("\n".join([*lines, *divergence.edits]))


def _layer(suite: Element, report: Report, layer: Layer) -> None:
    place = place_of_layer(report, layer.name, layer.source)
    case = _case(suite, layer.type, layer.name, place)
    if layer.unproven:
        SubElement(case, "skipped", message=_xml(layer.reason or "nothing is proven"))
    elif not layer.passed:
        failure = SubElement(case, "failure", type="diverges", message=_xml(layer.reason or "diverges"))
        failure.text = _xml(
            f"alone: {phrases.error(layer.own)}\nchained: {phrases.error(layer.chained)}\n"
            f"source: {place or 'unknown'}"
        )
    elif not phrases.is_judged(layer):
        SubElement(case, "skipped", message=_xml(layer.reason or "nothing to compare"))


def _todos(suite: Element, report: Report) -> None:
    seen: Counter[str] = Counter()
    for todo in report.todos:
        name = f"{todo.layer}: {todo.op}"
        seen[name] += 1
        numbered = name if seen[name] == 1 else f"{name} ({seen[name]})"
        case = _case(suite, "torchport.todo", numbered, place_of_layer(report, todo.layer, todo.source))
        error = SubElement(case, "error", type="todo", message=_xml(f"nothing maps {todo.op}: {todo.reason}"))
        error.text = _xml(f"layer: {todo.layer}\nsource: {todo.source or 'unknown'}")


def _case(suite: Element, classname: str, name: str, place: Place | None) -> Element:
    case = SubElement(suite, "testcase", classname=_xml(classname), name=_xml(name), time="0")
    if place is not None:
        case.set("file", _xml(place.file))
        if place.line is not None:
            case.set("line", str(place.line))
    return case


def _count(suite: Element, kind: str) -> int:
    return len(suite.findall(f"testcase/{kind}"))


def _xml(text: str) -> str:
    r"""Text that XML can hold and a terminal can show: other characters are written as Python would, such as \x1b."""
    return _NOT_XML.sub(lambda found: ascii(found.group())[1:-1], text)
