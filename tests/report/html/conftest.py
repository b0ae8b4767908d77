"""A run, and its page."""

from __future__ import annotations

import pytest

from benchmarks.bench_html import make_run
from torchport.report.html import render
from torchport.runs.run import Run

from ...browser import chromium, open_page  # noqa: F401


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A failing run of a hundred layers, with its graph, its Rust and its Python beside it."""
    return make_run(tmp_path_factory.mktemp("run"), 100)


@pytest.fixture(scope="session")
def html(run: Run) -> str:
    return render(run)
