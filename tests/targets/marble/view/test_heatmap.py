"""The heatmap of weights: what is read at a cell is the weight, and the controls do what they say."""

from __future__ import annotations

import pytest
import torch
from playwright.sync_api import expect

from torchport.targets.marble.core.builder import GraphBuilder
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.view.page import render

from ....browser import Opener, Tab
from . import graphs

READING, CANVAS = "#heat-value", "#heat"


def dense(weight: torch.Tensor) -> Core:
    builder = GraphBuilder()
    return builder.build(builder.linear_layer(builder.input(weight.shape[1]), weight, name="dense"))


def slide(tab: Tab, label: str, value: int) -> None:
    tab.page.get_by_label(label, exact=True).evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }", value
    )


def point_at(tab: Tab, down: float, across: float) -> None:
    canvas = tab.page.locator(CANVAS)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    tab.page.mouse.move(box["x"] + box["width"] * across, box["y"] + box["height"] * down)


def pixels(tab: Tab) -> int:
    """How many pixels differ from the first one."""
    found: int = tab.page.evaluate(
        """() => { const canvas = document.getElementById('heat');
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        const all = new Uint32Array(data.buffer); return all.filter((one) => one !== all[0]).length; }"""
    )
    return found


def test_value_is_read_by_mouse_and_by_keyboard(open_page: Opener) -> None:
    weight = torch.randn(5, 7)
    tab = open_page(render(dense(weight)))
    point_at(tab, 2.5 / 5, 3.5 / 7)
    expect(tab.page.locator(READING)).to_contain_text("[2, 3]: ")
    value = float(tab.page.locator(READING).inner_text().partition(": ")[2])
    assert value == pytest.approx(weight[2, 3].item(), rel=1e-6)
    tab.page.locator(CANVAS).focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
        tab.page.keyboard.press(key)
    expect(tab.page.locator(READING)).to_contain_text("[4, 4]: ")


def test_sliders_choose_rows_columns_and_magnitude(open_page: Opener) -> None:
    weight = torch.zeros(6, 6)
    weight[4, 5], weight[1, 1] = 10.0, 1.0
    tab = open_page(render(dense(weight)))
    both = pixels(tab)
    slide(tab, "Smallest magnitude that is drawn", 500)
    expect(tab.page.locator("#magnitude-value")).to_have_text("from 5 on")
    assert 0 < pixels(tab) < both
    slide(tab, "Smallest magnitude that is drawn", 0)
    for label, value in (("First row", 1), ("Last row", 1), ("First column", 1), ("Last column", 2)):
        slide(tab, label, value)
    expect(tab.page.locator("#row-value")).to_have_text("1 to 1")
    tab.page.locator(CANVAS).focus()
    tab.page.keyboard.press("ArrowRight")
    expect(tab.page.locator(READING)).to_have_text("[1, 1]: 1")


def test_a_large_matrix_shows_the_largest_of_each_block_and_the_true_value_when_close(
    open_page: Opener,
) -> None:
    weight = torch.full((1000, 3000), 0.01)
    weight[690:711, 1990:2011] = -3.0
    weight[700, 2000] = -3.5
    tab = open_page(render(dense(weight)))
    point_at(tab, 700.5 / 1000, 2002 / 3000)
    expect(tab.page.locator(READING)).to_contain_text("largest is -3")
    for label, value in (
        ("First row", 700),
        ("Last row", 702),
        ("First column", 1999),
        ("Last column", 2003),
    ):
        slide(tab, label, value)
    tab.page.locator(CANVAS).focus()
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("ArrowRight")
    expect(tab.page.locator(READING)).to_have_text("[700, 2000]: -3.5")
    assert tab.complaints == []


def test_a_matrix_without_room_is_a_small_picture_that_says_so(open_page: Opener) -> None:
    weight = torch.full((1000, 1000), 0.01)
    weight[999, 999] = 4.0
    core = dense(weight)
    tab = open_page(render(core, most_bytes=150_000))
    assert "small picture" in tab.page.locator("#heat-note").inner_text()
    tab.page.locator(CANVAS).focus()
    for key in ["ArrowRight"] * 64 + ["ArrowDown"] * 64:
        tab.page.keyboard.press(key)
    expect(tab.page.locator(READING)).to_have_text("rows 992 to 999, columns 992 to 999: largest is 4")


def test_rounded_weights_say_how_far_they_are_off(open_page: Opener) -> None:
    tab = open_page(render(dense(torch.randn(200, 200)), most_bytes=190_000))
    expect(tab.page.locator("#heat-note")).to_contain_text("rounded: off by at most")


def test_layers_are_searched_and_arrays_of_more_axes_have_their_whole_index(open_page: Opener) -> None:
    core = graphs.convolutions()
    tab = open_page(render(core))
    tab.page.get_by_label("Search layers").fill("second weight")
    expect(tab.page.locator("#heat-count")).to_contain_text("1 of ")
    expect(tab.page.locator("#heat-note")).to_contain_text("second.weight, float32 [4, 2, 3, 2]")
    tab.page.locator(CANVAS).focus()
    for key in ["ArrowRight"] * 5 + ["ArrowDown"]:
        tab.page.keyboard.press(key)
    value = core.version.arrays["second.weight"][1, 0, 2, 0].item()
    expect(tab.page.locator(READING)).to_contain_text("[1, 0, 2, 0]: ")
    assert float(tab.page.locator(READING).inner_text().partition(": ")[2]) == pytest.approx(value, rel=1e-6)


def test_picking_a_group_shows_its_weights_and_theme_repaints(open_page: Opener) -> None:
    tab = open_page(render(graphs.perceptron()), "#group=2%2Flinear")
    expect(tab.page.locator("#heat-note")).to_contain_text("2.weight")
    paint = "document.getElementById('heat').toDataURL()"
    before = tab.page.evaluate(paint)
    tab.page.keyboard.press("d")
    assert tab.page.evaluate(paint) != before
