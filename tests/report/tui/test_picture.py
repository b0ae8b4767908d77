"""A picture in characters tells its numbers, with colour or without."""

import math

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


def test_each_cell_bears_the_level_of_its_largest_error() -> None:
    errors = torch.zeros(8, 8)
    errors[0, 0], errors[1, 1], errors[2, 2], errors[3, 3] = 1.0, 0.2, 1e-9, math.nan
    lines = rows(picture.heatmap(drawn(errors), NARROW).plain)
    assert len(lines) == 8
    assert lines[0].startswith(" 6  ·  · ")
    assert lines[1].startswith(" ·  5  · ")
    assert lines[2].startswith(" ·  ·  1  ·")
    assert lines[3].startswith(" ·  ·  ·  ∞")


def test_the_legend_says_what_the_levels_stand_for() -> None:
    lines = rows(picture.heatmap(drawn(torch.full((8, 8), 0.25)), NARROW).plain)
    legend = [line[26:].strip() for line in lines]
    assert legend[0] == "6  ≤ 2.50e-01"
    assert legend[2] == "4  ≤ 2.50e-02"
    assert legend[6:] == ["·  no error", "∞  NaN or Inf"]
    assert max(len(line) for line in lines) <= NARROW


def test_with_room_the_cells_bear_numbers() -> None:
    lines = rows(picture.heatmap(drawn(torch.full((8, 8), 0.5)), LARGE).plain)
    assert lines[0].count("5e-01") == 8


def test_levels_are_half_decades_below_the_largest() -> None:
    assert [picture.level(10.0**-power, 1.0) for power in (0, 1, 2)] == [6, 4, 2]
    assert picture.level(0.0, 1.0) == 0
    assert picture.level(1e-30, 1.0) == picture.level(5e-324, 1e300) == 1
    assert picture.level(math.nan, 1.0) == picture.level(math.inf, 1.0) == 7


def test_small_tensors_have_fewer_cells_and_the_whole_legend() -> None:
    for shape in ((), (1,), (3,), (2, 3)):
        lines = rows(picture.heatmap(drawn(torch.ones(shape)), NARROW).plain)
        assert len(lines) == 8 and lines[0].startswith(" 6 ")
        columns = {line.index("≤") for line in lines if "≤" in line}
        assert len(columns) == 1, "the legend stands straight"


def test_no_error_and_only_infinite_errors_have_no_scale() -> None:
    assert "≤" not in picture.heatmap(drawn(torch.zeros(4, 4)), NARROW).plain
    everywhere = picture.heatmap(drawn(torch.full((4, 4), math.inf)), NARROW).plain
    assert everywhere.startswith(" ∞  ∞  ∞  ∞ ") and "≤" not in everywhere


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
