"""What a person reads: the verdict first, the culprit next, nothing cut off that matters."""

import io

import pytest
from rich.console import Console

from torchport.report.model import Report
from torchport.report.terminal import render

from .sample import TODO, failing, passing, unsupported


def shown(report: Report, width: int = 100, terminal: bool = False) -> str:
    stream = io.StringIO()
    render(report, Console(file=stream, width=width, highlight=False, force_terminal=terminal))
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
    for fact in ("head  torch.nn.Linear", "own error  max 0.5 at [1, 2]", "chained", "net.py:4"):
        assert fact in text


def test_a_value_of_nan_is_shown_as_what_never_passes() -> None:
    text = shown(failing())
    assert "NaN on one side only at 1 of 6 places" in text
    assert "never" in text


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
