"""The page of a graph on a narrow screen: nothing is cut off, and nothing is empty."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from torchport.targets.marble.view.page import render

from ....browser import Opener, Tab
from . import graphs

NARROW = {"width": 400, "height": 800}


@pytest.fixture(scope="module")
def page() -> str:
    return render(graphs.encoder())


@pytest.fixture
def tab(open_page: Opener, page: str) -> Tab:
    return open_page(page, viewport=NARROW)


def is_cut(tab: Tab, selector: str) -> list[str]:
    """The texts that do not fit their boxes."""
    found: list[str] = tab.page.locator(selector).evaluate_all(
        "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
    )
    return found


def test_a_neuron_of_the_list_is_shown_whole(open_page: Opener, page: str) -> None:
    tab = open_page(page, "#neuron=30", viewport=NARROW)
    expect(tab.page.locator("#neurons .row.chosen")).to_contain_text("weighted sum[0, 0, 6]bias")
    for part in (".kind-name", ".kind-name > :last-child", ".position", ".bias"):
        assert is_cut(tab, f"#neurons .row {part}") == []
    assert tab.page.evaluate("document.documentElement.scrollWidth") == NARROW["width"]


def test_the_tree_is_as_high_as_its_rows_and_grows_with_them(tab: Tab) -> None:
    tree = tab.page.locator("#tree")
    heights = []
    for _ in range(2):
        rows, height = tree.locator(".row").count(), tree.evaluate("box => box.clientHeight")
        assert height == 26 * rows
        heights.append(height)
        tree.locator("[aria-expanded=false] .twisty").first.click()
    assert heights[1] > heights[0]


def test_a_long_tree_scrolls_and_has_every_row_that_is_in_view(tab: Tab) -> None:
    tree = tab.page.locator("#tree")
    for _ in range(3):
        tree.locator("[aria-expanded=false] .twisty").first.click()
    shown, whole = tree.evaluate("box => [box.clientHeight, box.scrollHeight]")
    assert 200 < shown < 420 < whole
    tree.evaluate("box => { box.scrollTop = 0; }")
    assert tree.locator(".row").count() * 26 >= shown


def test_the_groups_of_a_layer_are_links_and_nothing_between_them(tab: Tab) -> None:
    tab.page.locator("#tree .row", has_text="layers").first.click()
    links = tab.page.locator("#detail .links")
    assert links.locator("button").count() > 5
    assert links.evaluate("box => [...box.childNodes].every((one) => !one.data)")


def test_the_list_of_keys_leaves_a_margin(tab: Tab) -> None:
    tab.page.click("#help-open")
    box = tab.page.locator("#help").bounding_box()
    assert box is not None and box["x"] >= 10 and box["x"] + box["width"] <= NARROW["width"] - 10
