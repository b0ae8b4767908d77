"""Workflow commands that GitHub Actions takes for annotations, on the lines of the user's code."""

import re
from pathlib import Path

import pytest

from torchport.errors import DiskError
from torchport.report import markdown
from torchport.report.escaping import escaped, escaped_lines
from torchport.report.github import SHOWN, append_summary, render
from torchport.runs.report import Report
from torchport.targets.base import Todo

from .sample import passing, unsupported
from .views import EVERY, NASTY, full, many, run_of

COMMAND = re.compile(r"::(?P<kind>error|warning|notice)(?: (?P<properties>[^:]*))?::(?P<message>.*)")


def read(line: str) -> dict[str, str]:
    """What GitHub's runner reads from a command: it splits at `,` and `=`, then undoes the escapes."""
    found = COMMAND.fullmatch(line)
    assert found is not None, line
    facts = {"kind": found["kind"], "message": _undone(found["message"])}
    for one in (found["properties"] or "").split(","):
        name, _, value = one.partition("=")
        facts[name] = _undone(value.replace("%3A", ":").replace("%2C", ","))
    return facts


def _undone(text: str) -> str:
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def annotations(report: Report) -> list[dict[str, str]]:
    return [read(line) for line in render(run_of(report)).splitlines()]


def test_a_pass_is_one_notice() -> None:
    (notice,) = annotations(passing())
    assert notice["kind"] == "notice" and notice["title"] == "torchport: Net"
    assert notice["message"] == "Net to candle: all 3 layers agree with PyTorch (noise floor x 4)"


def test_the_culprit_is_an_error_on_its_line_and_other_layers_are_warnings() -> None:
    error, *warnings = annotations(full())
    assert (error["kind"], error["file"], error["line"]) == ("error", "lib/norms.py", "12")
    assert error["title"] == "Net: head diverges"
    assert (
        "suggest: eps is 1e-05 where the model has 1e-12 (explains 99.9 % of the error)" in error["message"]
    )
    assert [(one["kind"], one["file"], one["line"]) for one in warnings] == [("warning", "net.py", "4")]
    assert warnings[0]["title"] == "Net: tail diverges too" and "outside" in warnings[0]["message"]


def test_todos_are_errors() -> None:
    first, *_ = annotations(unsupported())
    assert (first["kind"], first["file"], first["line"]) == ("error", "net.py", "9")
    assert first["title"] == "Net: nothing maps aten.foo.default"
    assert first["message"] == "in head: nothing maps it"


@pytest.mark.parametrize("kind", EVERY)
def test_only_a_pass_has_no_error(kind: str) -> None:
    has_error = any(one["kind"] == "error" for one in annotations(EVERY[kind]))
    assert has_error == (EVERY[kind].status != "pass")


def test_no_more_than_github_shows_and_the_rest_is_counted() -> None:
    found = annotations(many(300))
    for kind in ("error", "warning"):
        of_kind = [one for one in found if one["kind"] == kind]
        assert len(of_kind) == SHOWN
        assert re.fullmatch(r"and 292 more, all of them in report.json", of_kind[-1]["message"])


def test_every_special_character_comes_back() -> None:
    report = EVERY["nasty"]
    error, *_ = annotations(report)
    assert error["title"] == f"{escaped(NASTY)}: head {escaped(NASTY)} diverges"
    assert escaped_lines(NASTY) in error["message"]
    assert error["line"] == "12"


def test_escapes_are_those_that_the_runner_undoes() -> None:
    report = passing().model_copy(update={"model": "a:b,c%d\r\ne"})
    text = render(run_of(report))
    name = "a:b,c%25d\\r\\ne"
    assert text.startswith(
        f"::notice title=torchport%3A {name.replace(':', '%3A').replace(',', '%2C')}::{name} to"
    )
    assert text.count("\n") == 1
    todo = Todo(op="aten.foo", layer="head", reason="one\ntwo")
    text = render(run_of(unsupported().model_copy(update={"todos": (todo,)})))
    assert "one%0Atwo" in text and text.count("\n") == 1


def test_the_markdown_report_is_added_to_the_step_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    append_summary(run_of(full()))
    assert summary.read_text() == "before\n" + markdown.render(run_of(full()))


def test_without_a_step_summary_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.chdir(tmp_path)
    append_summary(run_of(full()))
    assert list(tmp_path.iterdir()) == []


def test_a_summary_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    with pytest.raises(DiskError, match="TP0330: cannot write the step summary"):
        append_summary(run_of(full()))


def test_layers_that_fail_in_the_same_way_are_one_annotation() -> None:
    report = full()
    blocks = tuple(
        report.layers[2].model_copy(update={"name": f"blocks.{i}", "type": "net.Block", "own": None})
        for i in range(4)
    )
    text = render(run_of(report.model_copy(update={"layers": (*report.layers[:2], *blocks)})))
    (warning,) = [line for line in text.splitlines() if line.startswith("::warning")]
    assert "blocks.0 diverges too" in warning and "also in: blocks.1, blocks.2, blocks.3" in warning
