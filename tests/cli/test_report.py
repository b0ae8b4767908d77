"""`torchport report`: what goes where, with which exit code, and what is said of a run that cannot be shown."""

import json
import os
import re
import subprocess
import sys
import types
import webbrowser
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from torchport.report import formats
from torchport.report.against import FACTOR
from torchport.report.github import SHOWN
from torchport.runs.report import Report

from ..report.sample import failing, passing
from ..report.views import EVERY, full
from .conftest import Answer

Torchport = Callable[..., Answer]
CODES = {"pass": 0, "fail": 1, "unsupported": 2, "error": 2}
FORMATS = ("text", "json", "markdown", "junit", "sarif", "github")


@pytest.fixture(autouse=True)
def _no_github(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)


def written(report: Report, folder: Path) -> str:
    report.write(folder / "report.json")
    return str(folder)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", CODES)
def test_every_format_goes_to_stdout_with_the_exit_code_of_the_verdict(
    torchport: Torchport, tmp_path: Path, name: str, kind: str
) -> None:
    answer = torchport("report", written(EVERY[kind], tmp_path), "--format", name)
    assert answer.code == CODES[kind]
    assert answer.stdout and answer.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_the_default_is_the_text_of_port(
    torchport: Torchport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    answer = torchport("report", written(full(), tmp_path))
    assert answer.stdout.startswith(
        "FAIL  Net to candle: layer_norm: eps is 1e-05 where the model has 1e-12, in head"
    )
    assert f"torchport minify {tmp_path}" in answer.stdout


def test_a_report_may_be_named_itself(torchport: Torchport, tmp_path: Path) -> None:
    written(passing(), tmp_path)
    (tmp_path / "report.json").rename(tmp_path / "old.json")
    assert torchport("report", str(tmp_path / "old.json")).code == 0


def test_json_is_the_report(torchport: Torchport, tmp_path: Path) -> None:
    folder = written(full(), tmp_path)
    by_option, by_format = (
        torchport("report", folder, "--json"),
        torchport("report", folder, "--format", "json"),
    )
    read_here = full().model_copy(update={"report": str(tmp_path / "report.json")})
    assert by_option == by_format and Report.from_json(by_option.stdout) == read_here


def test_out_is_written_whole_and_its_path_printed(torchport: Torchport, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "junit.xml"
    answer = torchport("report", written(full(), tmp_path), "--format", "junit", "--out", str(out))
    assert answer == (1, f"{out}\n", "")
    assert ElementTree.parse(out).getroot().tag == "testsuites"
    assert list(out.parent.iterdir()) == [out]


def test_text_in_a_file_has_no_colour(
    torchport: Torchport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = tmp_path / "report.txt"
    torchport("report", written(full(), tmp_path), "--out", str(out))
    assert out.read_text().startswith("FAIL  Net to candle") and "\x1b" not in out.read_text()


def test_out_that_cannot_be_written_is_said(torchport: Torchport, tmp_path: Path) -> None:
    answer = torchport("report", written(full(), tmp_path), "--format", "sarif", "--out", str(tmp_path))
    assert answer.code == 2 and "TP0330" in answer.stderr and answer.stdout == ""


def test_html_goes_beside_the_report(
    torchport: Torchport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = types.ModuleType("torchport.report.html")
    page.render = lambda run: f"<html>{run.report.model}</html>"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchport.report.html", page)
    folder = written(full(), tmp_path)
    assert torchport("report", folder, "--format", "html") == (1, f"{tmp_path / 'report.html'}\n", "")
    assert (tmp_path / "report.html").read_text() == "<html>Net</html>"
    other = tmp_path / "other.html"
    assert torchport("report", folder, "--format", "html", "--out", str(other)).stdout == f"{other}\n"


def test_github_adds_the_step_summary(
    torchport: Torchport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    folder = written(full(), tmp_path / "run")
    assert torchport("report", folder, "--format", "markdown").code == 1
    assert not summary.exists(), "only annotations are for GitHub"
    answer = torchport("report", folder, "--format", "github")
    assert answer.code == 1 and answer.stdout.startswith("::error file=")
    assert summary.read_text().startswith("## ❌ FAIL: Net to candle")


@pytest.mark.parametrize("options", [("--format", "markdown"), ("--against", "good")])
@pytest.mark.slow
def test_a_terminal_that_knows_only_ascii_does_not_matter(tmp_path: Path, options: tuple[str, ...]) -> None:
    written(passing(), tmp_path / "good")
    written(full(), tmp_path / "bad")
    done = subprocess.run(
        [sys.executable, "-m", "torchport", "report", "bad", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1 and done.stderr == b"" and done.stdout.decode()


def test_a_wrong_format_lists_the_formats(torchport: Torchport, tmp_path: Path) -> None:
    answer = torchport("report", written(full(), tmp_path), "--format", "pdf")
    assert answer.code == 2
    assert "error TP0801: there is no format 'pdf'" in answer.stderr
    assert "text, json, markdown, junit, sarif, github, html" in answer.stderr


def test_json_and_another_format_exclude_each_other(torchport: Torchport, tmp_path: Path) -> None:
    answer = torchport("report", written(full(), tmp_path), "--format", "sarif", "--json")
    assert answer.code == 2 and json.loads(answer.stdout)["error"]["code"] == "TP0801"


TEXT = full().to_json()
WRONG = {
    "cut off": (TEXT[: len(TEXT) // 2], "TP0341", "cut off"),
    "empty": ("", "TP0341", "cut off"),
    "not json": ("hello", "TP0341", "JSON"),
    "not a report": ('{"tests": 3}', "TP0341", "status"),
    "a list": ("[1, 2]", "TP0341", "object"),
    "of a newer version": (TEXT.replace('"schema": 1', '"schema": 2', 1), "TP0341", "schema"),
    "without layers": (
        '{"schema": 1, "status": "pass", "target": "candle", "model": "Net"}',
        "TP0343",
        "has no layers",
    ),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_report_that_cannot_be_shown_says_why(
    torchport: Torchport, tmp_path: Path, wrong: str, name: str
) -> None:
    text, code, said = WRONG[wrong]
    (tmp_path / "report.json").write_text(text)
    out = tmp_path / "out"
    answer = torchport("report", str(tmp_path), "--format", name, "--out", str(out))
    assert answer.code == 2 and answer.stdout == ""
    assert f"error {code}: " in answer.stderr and said in answer.stderr and "Traceback" not in answer.stderr
    assert not out.exists()


def test_a_run_that_was_interrupted_is_said_to_be(torchport: Torchport, tmp_path: Path) -> None:
    (tmp_path / "capture").mkdir()
    answer = torchport("report", str(tmp_path))
    assert answer.code == 2
    assert "error TP0340: " in answer.stderr and "did not come to its verdict" in answer.stderr


def test_what_is_not_there_is_said(torchport: Torchport, tmp_path: Path) -> None:
    answer = torchport("report", str(tmp_path / "gone"))
    assert answer.code == 2 and "error TP0340: there is no report at" in answer.stderr


def test_against_exits_with_1_only_when_something_got_worse(torchport: Torchport, tmp_path: Path) -> None:
    good, bad = written(passing(), tmp_path / "good"), written(failing(0.5), tmp_path / "bad")
    worse = torchport("report", bad, "--against", good)
    assert worse.code == 1 and worse.stdout.startswith("WORSE  Net to candle: pass before, fail")
    better = torchport("report", good, "--against", bad)
    assert better.code == 0 and better.stdout.startswith("BETTER")
    same = torchport("report", bad, "--against", f"{bad}/report.json")
    assert same.code == 0 and same.stdout.startswith("SAME")


def test_against_as_json_and_as_markdown(torchport: Torchport, tmp_path: Path) -> None:
    good, bad = written(passing(), tmp_path / "good"), written(failing(0.5), tmp_path / "bad")
    answer = torchport("report", bad, "--against", good, "--json")
    assert answer.code == 1 and json.loads(answer.stdout)["status"] == "worse"
    out = tmp_path / "change.md"
    answer = torchport("report", bad, "--against", good, "--format", "markdown", "--out", str(out))
    assert answer == (1, f"{out}\n", "") and out.read_text().startswith("## ❌ WORSE")


def test_against_refuses_the_other_formats(torchport: Torchport, tmp_path: Path) -> None:
    folder = written(passing(), tmp_path)
    answer = torchport("report", folder, "--against", folder, "--format", "sarif")
    assert answer.code == 2 and "--against has no sarif format" in answer.stderr


def test_against_another_model_is_refused(torchport: Torchport, tmp_path: Path) -> None:
    layers = tuple(one.model_copy(update={"name": f"other.{one.name}"}) for one in passing().layers)
    other = written(passing().model_copy(update={"layers": layers}), tmp_path / "other")
    answer = torchport("report", written(passing(), tmp_path / "run"), "--against", other)
    assert answer.code == 2 and "error TP0342: " in answer.stderr and answer.stdout == ""


DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "reports.md").read_text()


def documented() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    return [line.removeprefix("torchport ") for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("command", documented())
def test_every_command_of_the_documentation_runs(
    torchport: Torchport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("tiny", "before"):
        written(passing(), Path("torchport-out") / name)
    answer = torchport(*command.split())
    assert (answer.code, answer.stderr) == (0, "") and answer.stdout


def test_the_documentation_lists_every_format_and_the_factor() -> None:
    assert re.findall(r"^\| `(\w+)` \|", DOCUMENT, re.MULTILINE) == list(formats.FORMATS)
    assert f"more than a factor of {FACTOR:g}" in DOCUMENT.replace("\n", " ")
    assert f"at most {SHOWN} errors and {SHOWN} warnings" in DOCUMENT.replace("\n", " ")


def test_open_writes_the_page_and_opens_it(
    torchport: Torchport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    answer = torchport("report", written(full(), tmp_path), "--open")
    page = tmp_path / "report.html"
    assert answer.code == 1 and answer.stdout.strip() == str(page) and page.is_file()
    assert opened == [page.resolve().as_uri()]


def test_without_a_browser_the_page_is_there_and_that_is_said(
    torchport: Torchport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    answer = torchport("report", written(passing(), tmp_path), "--open", "--out", str(tmp_path / "page.html"))
    assert answer.code == 0 and (tmp_path / "page.html").is_file()
    assert "no browser could be opened" in answer.stderr


@pytest.mark.parametrize("other", [["--json"], ["--format", "junit"], ["--against", "."]])
def test_open_goes_with_no_other_format(torchport: Torchport, tmp_path: Path, other: list[str]) -> None:
    answer = torchport("report", written(full(), tmp_path), "--open", *other)
    assert answer.code == 2 and "TP0801" in answer.stderr + answer.stdout
    assert not (tmp_path / "report.html").exists()


def test_piped_text_has_no_padding(torchport: Torchport, tmp_path: Path) -> None:
    answer = torchport("report", written(full(), tmp_path))
    assert answer.stdout.count("\n") > 15
    assert [line for line in answer.stdout.splitlines() if line != line.rstrip()] == []
