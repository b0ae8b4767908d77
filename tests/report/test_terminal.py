"""What a person reads: the verdict first, the culprit next, nothing cut off that matters."""

import io
import math
from pathlib import Path

import pytest
import torch
from rich.console import Console

from torchport.parity.metrics import compare
from torchport.parity.percent import percent
from torchport.parity.result import Measured
from torchport.parity.tolerance import Fixed
from torchport.report import phrases
from torchport.report.terminal import EDITED_LINES, render
from torchport.runs.report import Report

from .sample import TODO, failing, layer, passing, unsupported
from .views import HUNK, full


def shown(report: Report, width: int = 100, terminal: bool = False, folder: Path | None = None) -> str:
    stream = io.StringIO()
    render(report, Console(file=stream, width=width, highlight=False, force_terminal=terminal), folder)
    return stream.getvalue()


def lines(report: Report, width: int = 100) -> list[str]:
    return [line.rstrip() for line in shown(report, width).splitlines() if line.strip()]


def test_a_pass_says_so_first_with_counts_and_rule() -> None:
    first, second, *_ = lines(passing())
    assert first == "PASS  Net to candle: all 3 layers agree with PyTorch (noise floor x 4)"
    assert second.strip().startswith("Outputs: max 2e-06 at [1, 2], rms ")


def test_a_pass_lists_the_layers_nearest_to_the_limit() -> None:
    text = shown(passing())
    assert "Nearest to the limit" in text
    assert text.index("head") < text.index("encoder")
    assert "blocks" not in text, "what computes nothing itself is no news"


def test_a_fail_names_the_culprit_before_the_table() -> None:
    text = shown(failing(0.5))
    first, *_ = lines(failing(0.5))
    assert first == "FAIL  Net to candle: 2 of 4 layers diverge (noise floor x 4)"
    assert text.index("Culprit") < text.index("Worst layers")
    for fact in ("head  torch.nn.Linear", "  alone", "max 0.5 at [1, 2]", "chained", "net.py:4"):
        assert fact in text


def test_one_layer_is_spoken_of_in_the_singular() -> None:
    one = passing().model_copy(update={"layers": (layer("Net", 0.0),)})
    assert lines(one)[0] == "PASS  Net to candle: the 1 layer agrees with PyTorch (noise floor x 4)"
    wrong = failing(0.5).model_copy(update={"layers": (layer("head", 0.5),)})
    assert lines(wrong)[0] == "FAIL  Net to candle: the 1 layer diverges (noise floor x 4)"


def test_a_culprit_is_shown_with_all_that_is_known() -> None:
    found = lines(full(), width=120)
    for fact in (
        "  operation  aten.layer_norm.default at lib/norms.py:12: 5e+04 times the limit",
        "  suggest    eps is 1e-05 where the model has 1e-12 (explains 99.9 % of the error)",
        "  suggest    the scale is missing (explains 50.0 % of the error)",
        "  snippet    out/snippets/head",
    ):
        assert fact in found
    start = found.index("The port's source is not what was generated")
    assert found[start + 1 : start + 4] == [f"  {line}" for line in HUNK.splitlines()]


def test_the_reason_of_the_operation_is_not_said_twice() -> None:
    report = full()
    assert report.first_divergence is not None and report.first_divergence.operation is not None
    same = report.first_divergence.operation.model_copy(update={"reason": report.first_divergence.reason})
    divergence = report.first_divergence.model_copy(update={"operation": same})
    found = lines(report.model_copy(update={"first_divergence": divergence}))
    assert "  operation  aten.layer_norm.default at lib/norms.py:12" in found


def test_long_edits_are_cut_and_counted() -> None:
    report = full()
    assert report.first_divergence is not None
    divergence = report.first_divergence.model_copy(update={"edits": (HUNK,) * 20})
    text = shown(report.model_copy(update={"first_divergence": divergence}))
    assert f"and {60 - EDITED_LINES} more lines, all of them in the JSON" in text


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (1.0, "100.0 %"),
        (0.99999, "99.9 %"),
        (0.9995, "99.9 %"),
        (0.29, "29.0 %"),
        (0.0004, "< 0.1 %"),
        (0.0, "0.0 %"),
    ],
)
def test_what_is_explained_is_never_rounded_up(share: float, said: str) -> None:
    assert percent(share) == said


def test_a_fail_ends_with_what_to_do_next() -> None:
    assert lines(full())[-3:] == [
        "Next     torchport report out --format html",
        "         torchport tui out",
        "         torchport minify out",
    ]


def test_what_to_do_next_names_the_folder_that_the_run_is_in() -> None:
    assert "torchport tui 'my runs/net'" in shown(full(), folder=Path("my runs/net"))
    assert "Next" not in shown(passing(), folder=Path("my runs/net"))


def test_only_what_diverges_can_be_minified() -> None:
    text = shown(unsupported(), folder=Path("out"))
    assert "torchport report out --format html" in text and "minify" not in text


def test_a_value_of_nan_is_shown_as_what_never_passes() -> None:
    text = shown(failing())
    assert "NaN on one side only at 1 of 6 places" in text
    assert "never" in text


def test_an_error_of_nan_is_never_called_zero() -> None:
    report = failing()
    head = next(one for one in report.layers if one.name == "head")
    assert (phrases.own_error(head.own), phrases.limit(head.own)) == ("NaN", "")
    assert phrases.error(head.own).startswith("NaN or Inf on one side only at 1 of 6 places, elsewhere max 0")
    everywhere = torch.full((2, 3), math.nan)
    metrics = compare(torch.ones(2, 3), everywhere)
    measured = Measured(**dict(metrics), key="x", **Fixed().judge(metrics)._asdict())
    assert phrases.outputs(measured) == "NaN or Inf on one side only at 6 of 6 places"


def test_files_and_seconds_come_last() -> None:
    *_, project, report, took = lines(passing())
    assert project == "Project  out/net"
    assert report == "Report   out/report.json"
    assert took == ("Took     6.5 s (capture 1.5, convert 0.2, build 4.0, run 0.5, compare 0.2)")


def test_unsupported_lists_the_first_todos_and_counts_the_rest() -> None:
    text = shown(unsupported())
    assert lines(unsupported())[0] == ("UNSUPPORTED  Net to candle: 12 operations that nothing maps")
    assert text.count(TODO.op) == 10 and "and 2 more" in text


def test_nothing_compared_is_said() -> None:
    nothing = Report(status="fail", target="candle", model="Net")
    assert lines(nothing) == ["FAIL  Net to candle: nothing was compared, so nothing is proven"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_verdicts_and_names_survive_a_narrow_terminal(width: int) -> None:
    text = shown(failing(0.5), width)
    assert "FAIL   head" in text and "pass   encoder" in text
    assert max(len(line) for line in text.splitlines()) <= width


def test_brackets_in_names_are_not_markup() -> None:
    assert "[bold]x" in shown(passing().model_copy(update={"model": "[bold]x"}))


def test_colour_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[" not in shown(passing())
    assert "\x1b[1;32m" in shown(passing(), terminal=True)


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "32m" not in shown(passing(), terminal=True)
