"""A run as SARIF 2.1.0, which code scanning reads: a result for the culprit, for each victim and each TODO.

In: a `Run`. Out: JSON. Rules are torchport's own codes. Files below the root of the checkout have relative URIs.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from torchport.errors import CODES
from torchport.report import phrases
from torchport.report.places import Place, place_of, place_of_culprit, place_of_layer
from torchport.runs.report import Report
from torchport.runs.run import Run

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
DIVERGES, NOTHING_COMPARED, TODO = "TP0701", "TP0702", "TP0401"
_RULES = (DIVERGES, NOTHING_COMPARED, TODO)

Object = dict[str, Any]


def render(run: Run) -> str:
    report = run.report
    invocation: Object = {"executionSuccessful": report.status != "error"}
    if report.status == "error":
        trouble = {"level": "error", "message": {"text": phrases.headline(report)}}
        invocation["toolExecutionNotifications"] = [trouble]
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver()},
                "automationDetails": {"id": f"torchport/{report.target}/{report.model}/"},
                "invocations": [invocation],
                "results": _results(report),
                "properties": {"status": report.status, "target": report.target, "model": report.model},
            }
        ],
    }
    return json.dumps(log, indent=2) + "\n"


def _driver() -> Object:
    driver: Object = {"name": "torchport", "rules": [_rule(code) for code in _RULES]}
    with suppress(PackageNotFoundError):
        driver["version"] = version("torchport")
    return driver


def _rule(code: str) -> Object:
    title, meaning, fix = CODES[code].spelled()
    return {
        "id": code,
        "shortDescription": {"text": title},
        "fullDescription": {"text": meaning},
        "help": {"text": fix},
        "defaultConfiguration": {"level": "error"},
    }


def _results(report: Report) -> list[Object]:
    found = [*_culprit(report), *_victims(report), *_todos(report)]
    if not found and report.status == "fail":
        found = [_result(report, NOTHING_COMPARED, "error", report.model, None, phrases.headline(report))]
    return found


def _culprit(report: Report) -> list[Object]:
    divergence = report.first_divergence
    if divergence is None:
        return []
    known = [f"{label}: {fact}" for label, fact in phrases.facts(report)]
    message = "\n".join([f"{divergence.place} diverges", *known, *divergence.edits])
    layer, place = divergence.layer, place_of_culprit(report)
    result = _result(report, DIVERGES, "error", layer, place, message)
    operation = place_of(divergence.operation.source) if divergence.operation else None
    others = {str(other): other for other in (operation, place_of(divergence.source)) if other is not None}
    others.pop(str(place), None)
    if others:
        result["relatedLocations"] = [{"physicalLocation": _physical(other)} for other in others.values()]
    return [result]


def _victims(report: Report) -> list[Object]:
    """The other layers whose own error is out of bounds, and those of which nothing is proven."""
    culprit = None if report.first_divergence is None else report.first_divergence.layer
    results = []
    for layer in report.layers:
        if layer.passed or layer.name == culprit:
            continue
        place, why = (
            place_of_layer(report, layer.name, layer.source),
            layer.reason or phrases.error(layer.own),
        )
        if layer.unproven:
            message = f"nothing is proven of {layer.name}: {why}"
            results.append(_result(report, NOTHING_COMPARED, "note", layer.name, place, message))
        else:
            message = f"{layer.name} diverges too: {why}"
            results.append(_result(report, DIVERGES, "warning", layer.name, place, message))
    return results


def _todos(report: Report) -> list[Object]:
    results = []
    for todo in report.todos:
        place = place_of_layer(report, todo.layer, todo.source)
        message = f"nothing maps {todo.op} in {todo.layer}: {todo.reason}"
        results.append(_result(report, TODO, "error", todo.layer, place, message))
    return results


def _result(report: Report, rule: str, level: str, layer: str, place: Place | None, message: str) -> Object:
    location: Object = {"logicalLocations": [{"fullyQualifiedName": layer, "kind": "module"}]}
    if place is not None:
        location["physicalLocation"] = _physical(place)
    same = "\0".join((report.target, report.model, rule, layer, message if rule == TODO else ""))
    return {
        "ruleId": rule,
        "ruleIndex": _RULES.index(rule),
        "level": level,
        "message": {"text": message},
        "locations": [location],
        "partialFingerprints": {"torchportLayer/v1": hashlib.sha256(same.encode()).hexdigest()},
    }


def _physical(place: Place) -> Object:
    uri = quote(place.file) if place.is_below_root else Path(place.file).as_uri()
    physical: Object = {"artifactLocation": {"uri": uri}}
    if place.line is not None:
        physical["region"] = {"startLine": max(1, place.line)}
    return physical
