"""Every format can show every report, and a verdict on nothing is refused."""

from pathlib import Path

import pytest

from torchport.errors import ReportError, UsageError
from torchport.report.formats import FORMATS, open_run, renderer
from torchport.report.terminal import WIDTH
from torchport.runs.report import Report

from .sample import TODO, passing
from .views import EVERY, run_of

TEXTS = [name for name in FORMATS if name != "html"]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("kind", EVERY)
def test_every_format_shows_every_report(name: str, kind: str) -> None:
    text = renderer(name)(run_of(EVERY[kind]))
    assert text.endswith("\n") and len(text) > 20


def test_a_wrong_name_lists_the_formats() -> None:
    with pytest.raises(UsageError, match="TP0801: there is no format 'xml'") as caught:
        renderer("xml")
    assert caught.value.fix == "Give one of text, json, markdown, junit, sarif, github, html."


def test_json_is_the_report() -> None:
    assert Report.from_json(renderer("json")(run_of(passing()))) == passing()


def test_text_is_plain_and_not_wider_than_a_page() -> None:
    text = renderer("text")(run_of(EVERY["fail"]))
    assert "\x1b" not in text
    assert all(line == line.rstrip() and len(line) <= WIDTH for line in text.splitlines())


@pytest.mark.parametrize(
    "empty",
    [
        Report(status="pass", target="candle", model="Net"),
        Report(status="pass", target="candle", model="Net", todos=(TODO,)),
        Report(status="fail", target="candle", model="Net"),
    ],
)
def test_a_verdict_on_no_layers_is_refused(empty: Report, tmp_path: Path) -> None:
    empty.write(tmp_path / "report.json")
    with pytest.raises(ReportError, match="TP0343: the report says .* and has no layers"):
        open_run(tmp_path)


@pytest.mark.parametrize("kind", ["unsupported", "error", "pass", "fail"])
def test_a_report_that_says_something_is_opened(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    report = EVERY[kind].model_copy(update={"report": str(file)})
    report.write(file)
    for place in (tmp_path, file):
        run = open_run(place)
        assert run.report == report and run.folder == tmp_path
