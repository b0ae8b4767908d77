"""The report on a debugging run: its JSON, the words for it, and the terminal."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from torchport.bench.results import Latency, Results, Row
from torchport.debug import phrases, terminal
from torchport.debug.generate import ReportGenerator
from torchport.debug.guards.model import Failure as GuardFailure
from torchport.debug.guards.model import Place, RecompileLimit, SkippedFrame
from torchport.debug.report import ConstraintSection, DebugReport, Failure, KernelDiffSection, Summary
from torchport.errors import ReportError, UsageError

from .sample import GUARDS, LINE, failing, passing, violation, written


def shown(report: DebugReport, part: str) -> str:
    text = StringIO()
    getattr(terminal, part)(report, Console(width=200, file=text))
    return text.getvalue()


def test_the_json_has_what_programs_look_for() -> None:
    facts = json.loads(failing().to_json())
    assert facts["schema"] == 1 and facts["model"] == "MyNet" and facts["timestamp"]
    assert set(facts["summary"]) >= {
        "total_graphs",
        "graph_breaks",
        "constraint_violations",
        "kernel_diff_passed",
    }
    assert set(facts) >= {"guards", "constraints", "kernel_diff", "artifacts"}


def test_a_report_survives_being_written(tmp_path: Path) -> None:
    failing().write(tmp_path / "report.json")
    assert DebugReport.read(tmp_path / "report.json") == failing()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": 2}'])
def test_what_is_no_report_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "report.json").write_text(content)
    with pytest.raises(ReportError, match="is no report"):
        DebugReport.read(tmp_path / "report.json")


def test_the_answer_comes_first() -> None:
    assert phrases.headline(failing()) == (
        f"aten.gelu.default in act is wrong, {LINE}; 2 violations of constraints (shape, dtype)"
    )
    assert phrases.headline(passing()) == "1 graph, 12 values agree with eager"


def test_a_backend_that_ran_eager_proves_nothing() -> None:
    section = KernelDiffSection(verdict="no kernel ran", reference="eager", backend="torchport_mock")
    report = passing().model_copy(update={"kernel_diff": section, "summary": Summary(total_graphs=1)})
    assert "no kernel ran" in phrases.headline(report)
    assert json.loads(report.to_json())["summary"]["kernel_diff_passed"] is None


def test_what_ended_early_is_said_first() -> None:
    report = failing(failures=(Failure(step="compile", message="the backend hangs"),))
    assert phrases.headline(report).startswith("compile ended early: the backend hangs")


def test_the_terminal_shows_every_part() -> None:
    assert "FAIL" in shown(failing(), "summary") and "120 noise floors" in shown(failing(), "summary")
    assert "float64 is not allowed" in shown(failing(), "constraints")
    guards = shown(failing(), "guards")
    assert "call to print" in guards and "size mismatch" in guards and "TENSOR_MATCH" in guards
    assert "not looked at" in shown(passing(), "guards")


def test_the_summary_names_breaks_and_where_more_is_said() -> None:
    text = shown(failing(folder="elsewhere/run-001"), "summary")
    assert f"{LINE}  print(x)  (call to print)" in text
    assert "torchport debug analyze elsewhere/run-001 --type guards" in text


def test_breaks_come_before_hundreds_of_guards() -> None:
    guards = shown(failing(), "guards")
    assert guards.index("call to print") < guards.index("TENSOR_MATCH")


def test_the_table_of_violations_says_what_to_do() -> None:
    report = failing()
    mended = replace(report.constraints.violations[0], fix="pad the axis")
    section = report.constraints.model_copy(update={"violations": (mended,)})
    assert "→ pad the axis" in shown(report.model_copy(update={"constraints": section}), "constraints")


def test_a_page_of_several_runs_begins_with_all_answers(tmp_path: Path) -> None:
    page = ReportGenerator(written(tmp_path), written(tmp_path, passing())).text("html")
    assert "2 runs: 1 PASS, 1 FAIL" in page and 'href="#run-2"' in page
    assert page.index("2 runs:") < page.index('id="run-1"')
    assert "overview-title" not in ReportGenerator(written(tmp_path)).text("html")


def test_a_constraint_that_could_not_be_checked_is_not_called_kept() -> None:
    section = ConstraintSection(checked=("mine",))
    report = passing().model_copy(update={"constraints": section})
    assert phrases.kept(report) == "mine"
    fault = Failure(step="check", message="TP1006: it raised")
    assert phrases.kept(report.model_copy(update={"failures": (fault,)})) is None


def test_what_limits_a_verdict_is_in_the_summary() -> None:
    diff = passing().kernel_diff
    assert diff is not None
    notes = (
        *(f"graph {number} forward: other kernels" for number in range(5)),
        "2 operations are not compared",
    )
    text = shown(
        passing().model_copy(update={"kernel_diff": diff.model_copy(update={"notes": notes})}), "summary"
    )
    assert "2 operations are not compared" in text and "and 3 more on kernels" in text


def test_a_first_line_ends_without_a_colon() -> None:
    stopped = Failure(step="compile", message="1 violation in graph_0:\n  dtype: float64")
    assert phrases.headline(failing(failures=(stopped,))).startswith(
        "compile ended early: 1 violation in graph_0; "
    )


def test_a_long_reason_is_cut_in_the_first_line_alone() -> None:
    report = failing(failures=(Failure(step="script", message="ValueError: " + "word " * 99),))
    first = phrases.headline(report).partition(";")[0]
    assert first.endswith(" …") and len(first) < 200
    assert shown(report, "summary").count("word") > 99


def test_what_runs_outside_of_graphs_is_called_no_graph(tmp_path: Path) -> None:
    outside = replace(violation(), graph="outside", stage="outside")
    report = failing(constraints=ConstraintSection(checked=("shape",), violations=(outside,)))
    assert "outside of graphs" in ReportGenerator(written(tmp_path, report)).text("html")
    assert "outside of" in shown(report, "constraints")


def test_several_runs_are_a_list(tmp_path: Path) -> None:
    runs = [written(tmp_path), written(tmp_path, passing())]
    assert [one["status"] for one in json.loads(ReportGenerator(*runs).text("json"))] == ["fail", "pass"]
    assert json.loads(ReportGenerator(runs[0]).text("json"))["status"] == "fail"


def test_the_page_cannot_be_broken_out_of(tmp_path: Path) -> None:
    hostile = "</style><script>alert(1)</script>"
    page = ReportGenerator(written(tmp_path, failing(model=hostile))).text("html")
    assert hostile not in page and "&lt;script&gt;alert(1)" in page


def test_the_page_has_the_answer_the_lines_and_the_code(tmp_path: Path) -> None:
    page = ReportGenerator(written(tmp_path)).text("html")
    for text in ("aten.gelu.default", "10 is no multiple of 8", "call to print", "fx_graphs/graph_0.py"):
        assert text in page
    assert 'class="row marked"' in page and "<b>" not in page


def test_the_page_has_what_is_not_compiled_and_why(tmp_path: Path) -> None:
    place = Place(file="m.py", line=7, function="Net.step")
    guards = GUARDS.model_copy(
        update={
            "limits": (
                RecompileLimit(
                    function=place,
                    setting="recompile_limit",
                    limit=8,
                    compile_id="0/8",
                    failed_guards=(),
                    advice="cure it",
                ),
            ),
            "skipped": (SkippedFrame(function=place, reason="it yields"),),
            "failures": (GuardFailure(error="KeyError", message="no such key", place=place),),
        }
    )
    page = ReportGenerator(written(tmp_path, failing(guards=guards))).text("html")
    for text in (
        "recompile_limit = 8",
        "cure it",
        "it yields",
        "KeyError",
        "no such key",
        "Net.step",
        "m.py:7",
    ):
        assert text in page, text


def test_the_page_of_a_script_names_its_arguments(tmp_path: Path) -> None:
    page = ReportGenerator(written(tmp_path, failing(spec="train.py", arguments=("--lr", "<1>")))).text(
        "html"
    )
    assert "--lr &lt;1&gt;" in page


def test_what_failed_is_shown_with_its_line() -> None:
    report = failing(failures=(Failure(step="script", message="ValueError: boom", where="train.py:7"),))
    assert "script: ValueError: boom (train.py:7)" in shown(report, "summary")


def test_a_full_disk_is_said_in_a_few_lines() -> None:
    notes = (
        *(f"not kept: cannot write graph_{number}.py" for number in range(40)),
        "torch warns: " + "word " * 99,
    )
    text = shown(failing(notes=notes), "summary")
    assert "graph_2.py" in text and "graph_3.py" not in text and "and 37 more files" in text
    assert "torch warns: word" in text and " …" in text


def test_results_of_benchmarks_are_a_table_on_the_page(tmp_path: Path) -> None:
    row = Row(
        model="bert",
        backend="inductor",
        status="measured",
        latency=Latency(average=2.0, deviation=0.1, median=1.23456, runs=3),
        peak_memory_bytes=1234567,
    )
    results = Results(created="now", torch="2", device="cpu", threads=1, warmup=0, runs=3, rows=(row,))
    results.save(tmp_path / "bench.json")
    page = ReportGenerator(written(tmp_path), benchmarks=tmp_path / "bench.json").text("html")
    assert "<td>bert</td>" in page and ">1.235</td>" in page and ">1,234,567</td>" in page
    assert "speedup" not in page


@pytest.mark.parametrize("content", ["", "[]", "{}"])
def test_what_has_no_results_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "bench.json").write_text(content)
    with pytest.raises(ReportError, match="no results"):
        ReportGenerator(written(tmp_path), benchmarks=tmp_path / "bench.json")


def test_bad_requests_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        ReportGenerator()
    with pytest.raises(UsageError, match="format 'pdf'"):
        ReportGenerator(written(tmp_path)).text("pdf")
