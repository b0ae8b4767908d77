"""A picture in characters tells its numbers, with colour or without."""

import math

import pytest
import torch

from torchport.parity.picture import Picture, draw
from torchport.report.tui import picture

NARROW, LARGE = 40, 80


def drawn(errors: torch.Tensor) -> Picture:
    golden = torch.zeros_like(errors)
    made = draw(golden, errors, 1.0)
    assert made is not None
    return made


def rows(text: str) -> list[str]:
    return text.splitlines()


def test_each_cell_bears_its_share_of_what_is_allowed() -> None:
    errors = torch.zeros(8, 8)
    errors[0, 0], errors[1, 1], errors[2, 2], errors[3, 3] = 1.0, 0.05, 1e-9, math.nan
    lines = rows(picture.heatmap(drawn(errors), 0.1, NARROW).plain)
    assert len(lines) == 8
    assert [line[:16].split() for line in lines[:4]] == [
        ["10", "·", "·", "·"],
        ["·", ".5", "·", "·"],
        ["·", "·", "0", "·"],
        ["·", "·", "·", "NaN"],
    ]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (0.0, "·"),
        (0.3, ".3"),
        (0.94, ".9"),
        (1.0, "1"),
        (12.4, "12"),
        (4200.0, "4k"),
        (3e6, "3M"),
        (2e9, "2e9"),
    ],
)
def test_shares_have_four_characters_at_most(error: float, said: str) -> None:
    assert picture.share(error, 1.0) == said


def test_without_a_limit_no_share_is_made_up() -> None:
    assert picture.share(0.5, None) == "?"
    assert "limit" not in picture.heatmap(drawn(torch.ones(4, 4)), None, NARROW).plain


def test_colours_are_calm_up_to_the_limit_and_not_beyond() -> None:
    passing = picture.heatmap(drawn(torch.full((8, 8), 0.9)), 1.0, NARROW)
    failing = picture.heatmap(drawn(torch.full((8, 8), 1.1)), 1.0, NARROW)
    first = [str(text.spans[0].style) for text in (passing, failing)]
    assert first == ["#ffffff on #2f6ea8", "#000000 on #f0b27a"]


def test_the_legend_stands_straight_beside_small_tensors_too() -> None:
    for shape in ((), (1,), (3,), (2, 3), (8, 8)):
        lines = rows(picture.heatmap(drawn(torch.ones(shape)), 0.5, NARROW).plain)
        assert len({line.index("≤") for line in lines if "≤" in line}) == 1
        assert max(len(line) for line in lines) <= NARROW


def test_histograms_share_range_and_scale() -> None:
    golden = torch.linspace(-1, 1, 240)
    made = draw(golden, golden.clamp(min=0), 1.0)
    assert made is not None
    top, bottom, axis = rows(picture.histograms(made, NARROW).plain)
    assert top.startswith("golden    ") and len(set(top[10:])) <= 2, "evenly spread"
    assert bottom.startswith("port      ") and bottom[10:21].strip() == "", "nothing below zero"
    assert bottom[22] == "█", "the fullest bin of both"
    assert axis.split() == ["-1", "1"]
    assert len(rows(picture.histograms(made, LARGE).plain)[0]) == 10 + 2 * len(made.golden)


def test_a_bin_with_one_value_is_not_blank() -> None:
    values = torch.zeros(10_000)
    values[0] = 1.0
    made = draw(values, values, 1.0)
    assert made is not None
    assert rows(picture.histograms(made, NARROW).plain)[0].endswith("▁")
