"""A run as workflow commands of GitHub Actions, which become annotations on the lines of the user's code.

In: a `Run`. Out: a command a line: the culprit and operations that nothing maps are errors, other layers that diverge
are warnings, a pass is a notice. `append_summary` puts the Markdown report on the page of the job.
"""

from __future__ import annotations

import os
from pathlib import Path

from torchport.errors import DiskError
from torchport.report import markdown, phrases
from torchport.report.places import Place, place_of_culprit, place_of_layer
from torchport.report.printable import printable
from torchport.runs.findings import Finding, findings
from torchport.runs.report import Report
from torchport.runs.run import Run

SHOWN = 10
"""The number of annotations of one kind that GitHub shows for a step."""

Annotation = tuple[str, Place | None, str, str]
"""The kind, the place, the title and the message."""


def render(run: Run) -> str:
    report = printable(run.report)
    if report.passed:
        return _command("notice", None, f"torchport: {report.model}", phrases.headline(report)) + "\n"
    errors = [*_culprit(report), *_todos(report)]
    if not errors:
        errors = [("error", None, f"torchport: {report.model}", phrases.headline(report))]
    found = [*_capped(errors, report), *_capped(_victims(report), report)]
    return "".join(f"{_command(*annotation)}\n" for annotation in found)


def append_summary(run: Run) -> None:
    """Adds the Markdown report to the file that GITHUB_STEP_SUMMARY names, if it names one."""
    name = os.environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        return
    try:
        with Path(name).open("a", encoding="utf-8") as summary:
            summary.write(markdown.render(run))
    except OSError as error:
        raise DiskError("TP0330", f"cannot write the step summary: {error.strerror}", where=name) from error


def _culprit(report: Report) -> list[Annotation]:
    divergence = report.first_divergence
    if divergence is None:
        return []
    message = "\n".join(f"{label}: {fact}" for label, fact in phrases.facts(report))
    return [("error", place_of_culprit(report), f"{report.model}: {divergence.place} diverges", message)]


def _victims(report: Report) -> list[Annotation]:
    """The other layers whose own error is out of bounds: one annotation for those that fail in the same way.

    Those that fail as the culprit does are told of with it.
    """
    culprit = None if report.first_divergence is None else report.first_divergence.layer
    return [
        (
            "warning",
            place_of_layer(report, found.layer.name, found.layer.source),
            f"{report.model}: {found.layer.name} diverges too",
            _why(found),
        )
        for found in findings(report)
        if found.layer.name != culprit
    ]


def _why(found: Finding) -> str:
    reason = found.layer.reason or phrases.error(found.layer.own)
    others = phrases.named([layer.name for layer in found.others])
    return f"{reason}\nalso in: {others}" if others else reason


def _todos(report: Report) -> list[Annotation]:
    return [
        (
            "error",
            place_of_layer(report, todo.layer, todo.source),
            f"{report.model}: nothing maps {todo.op}",
            f"in {todo.layer}: {todo.reason}",
        )
        for todo in report.todos
    ]


def _capped(found: list[Annotation], report: Report) -> list[Annotation]:
    """At most as many annotations as GitHub shows; if some are left out, the last one says how many."""
    if len(found) <= SHOWN:
        return found
    more = f"and {len(found) - SHOWN + 1} more, all of them in report.json"
    return [*found[: SHOWN - 1], (found[0][0], None, f"torchport: {report.model}", more)]


def _command(kind: str, place: Place | None, title: str, message: str) -> str:
    properties: dict[str, str | int | None] = {
        "file": None if place is None else place.file,
        "line": None if place is None else place.line,
        "title": title,
    }
    given = ",".join(
        f"{name}={_property(str(value))}" for name, value in properties.items() if value is not None
    )
    return f"::{kind} {given}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
