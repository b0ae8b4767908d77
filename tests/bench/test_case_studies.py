"""The page of case studies shows what the files of the runner say."""

from __future__ import annotations

import pytest

from benchmarks.case_studies import FIGURE, PAGE, STUDIES, with_figures
from torchport.bench.models import MODELS


def test_every_figure_is_what_the_files_say() -> None:
    page = PAGE.read_text()
    assert with_figures(page) == page


def test_every_model_has_both_figures() -> None:
    figures = {(found[2], found[3]) for found in FIGURE.finditer(PAGE.read_text())}
    assert figures == {(model, figure) for model in MODELS for figure in ("speed", "constraint")}
    assert set(STUDIES) == set(MODELS)


@pytest.mark.parametrize("model", MODELS)
def test_a_figure_that_was_edited_is_written_anew(model: str) -> None:
    page = f"<!-- figures: {model} speed -->\n| 100 × |\n<!-- end -->\n"
    assert "100 ×" not in with_figures(page) and "inductor" in with_figures(page)
