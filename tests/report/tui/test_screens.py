"""What the dashboard looks like. `pytest --snapshot-update` draws the pictures anew; look at them before you commit."""

from collections.abc import Callable
from pathlib import Path

import pytest

from torchport.report.tui.app import Dashboard

from . import sample

Compare = Callable[..., bool]


def test_a_failing_run_on_a_small_terminal(snap_compare: Compare) -> None:
    assert snap_compare(Dashboard(sample.failing()), terminal_size=(80, 24))


def test_a_failing_run_on_a_large_terminal(snap_compare: Compare) -> None:
    assert snap_compare(Dashboard(sample.failing()), terminal_size=(160, 45))


def test_a_passing_run_without_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(Dashboard(sample.passing()), press=["down"], terminal_size=(80, 24))


def test_a_filter_while_it_is_typed(snap_compare: Compare) -> None:
    assert snap_compare(Dashboard(sample.failing()), press=["slash", *"dense"], terminal_size=(80, 24))


def test_operations_that_nothing_maps(snap_compare: Compare) -> None:
    assert snap_compare(Dashboard(sample.unsupported()), terminal_size=(80, 24))


def test_a_snippet(snap_compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sample.write_snippet(Path("snippets/attention"))
    assert snap_compare(Dashboard(sample.failing()), press=["o"], terminal_size=(80, 24))
