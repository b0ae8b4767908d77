"""The page in a browser: it draws with no network, folds and unfolds, searches, and can be used by keyboard alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from benchmarks.bench_html import make_run
from torchport.parity.result import Layer
from torchport.report.html import render
from torchport.runs.report import Report
from torchport.runs.run import Run

from ...browser import Opener, Tab
from ..sample import failing, layer, passing, unsupported

CULPRIT = "blocks.6.mlp.fc2"
HOSTILE = """</script><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>"'`{{7*7}}\u2028 ünï#/&=%"""


def alone(report: Report, folder: Path) -> Run:
    """A report with nothing beside it."""
    return Run.of(report, folder)


def row(tab: Tab, name: str) -> Locator:
    return tab.page.locator("#tree [role=treeitem]").filter(has=tab.page.get_by_text(name, exact=True))


def box(tab: Tab, name: str) -> Locator:
    place = tab.page.evaluate(
        "name => JSON.parse(document.getElementById('data').textContent).layers.name.indexOf(name)", name
    )
    return tab.page.locator(f'#graph [data-layer="{place}"]')


@pytest.fixture
def tab(open_page: Opener, html: str) -> Tab:
    opened = open_page(html)
    opened.wait_for_chart()
    return opened


def test_page_draws_without_network_or_complaint(tab: Tab) -> None:
    symbols = tab.page.locator("#chart svg .mark-symbol.role-mark path")
    assert symbols.count() >= 2 * 95
    assert tab.page.locator("#chart svg .mark-line path").count() == 1
    assert tab.page.locator("#graph .box").count() > 3
    assert tab.requests == [tab.url]
    assert tab.complaints == []


def test_policy_of_the_page_forbids_what_was_not_written_into_it(tab: Tab) -> None:
    refused = tab.page.evaluate("fetch('https://example.com').then(() => 'fetched', () => 'refused')")
    added = tab.page.evaluate(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.added = 1';"
        " document.body.append(s); return window.added ?? 'refused'; })()"
    )
    assert (refused, added) == ("refused", "refused")
    assert tab.requests == [tab.url]


def test_verdict_and_culprit_are_at_the_top(tab: Tab) -> None:
    assert "FAIL" in tab.page.locator("h1").inner_text()
    culprit = tab.page.locator("#culprit")
    assert CULPRIT in culprit.inner_text()
    assert "times as far from the float64 truth" in culprit.inner_text()
    assert "the weight is multiplied by 1.0003" in culprit.inner_text()
    assert "explains 99.8 % of the error" in culprit.inner_text()


def test_chart_marks_the_point_of_failure(tab: Tab) -> None:
    assert tab.page.locator("#chart svg").get_by_text(f"⚑ {CULPRIT}").count() == 1


def test_culprit_is_selected_and_its_path_unfolded_at_the_start(tab: Tab) -> None:
    assert tab.selected() == CULPRIT
    chosen = tab.page.locator("#tree [aria-selected=true]")
    assert "fc2" in chosen.inner_text() and "FAIL" in chosen.inner_text() and "⚑" in chosen.inner_text()
    assert row(tab, "blocks.5").get_attribute("aria-expanded") == "false"


def test_what_is_folded_has_no_elements(tab: Tab) -> None:
    before = tab.page.locator("#tree [role=treeitem]").count()
    assert before < 50
    row(tab, "blocks.3").locator(".twisty").click()
    assert tab.page.locator("#tree [role=treeitem]").count() == before + 3
    row(tab, "blocks.3").locator(".twisty").click()
    assert tab.page.locator("#tree [role=treeitem]").count() == before


def test_tree_unfolds_to_the_operations_of_a_module(tab: Tab) -> None:
    row(tab, "blocks.3").locator(".twisty").click()
    assert row(tab, "add_1").count() == 0, "raw operations are folded away until they are asked for"
    row(tab, "2 operations of its own").first.click()
    row(tab, "add_1").first.click()
    assert "aten.add.Tensor(mlp, add)" in tab.page.locator("#detail .operation").inner_text()
    assert tab.page.url.endswith("#layer=blocks.3&node=add_1")
    assert tab.page.locator("#graph .box.selected").get_attribute("data-node") == "add_1"


def test_tree_is_moved_in_by_keyboard(tab: Tab) -> None:
    focused = tab.page.locator("#tree :focus")
    tab.page.locator("#tree [tabindex='0']").focus()
    tab.page.keyboard.press("Home")
    assert "Large" in focused.inner_text()
    tab.page.keyboard.press("ArrowRight")
    assert "blocks.0" in focused.inner_text() and focused.get_attribute("aria-level") == "2"
    tab.page.keyboard.press("ArrowRight")
    assert focused.get_attribute("aria-expanded") == "true"
    tab.page.keyboard.press("ArrowDown")
    assert "attention" in focused.inner_text() and focused.get_attribute("aria-level") == "3"
    tab.page.keyboard.press("Enter")
    assert tab.selected() == "blocks.0.attention"
    tab.page.keyboard.press("ArrowLeft")
    assert "blocks.0" in focused.inner_text()
    tab.page.keyboard.press("ArrowLeft")
    assert focused.get_attribute("aria-expanded") == "false"


def test_search_filters_counts_and_goes_on(tab: Tab) -> None:
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("query linear")
    rows = tab.page.locator("#tree [role=treeitem]")
    assert rows.count() == 11
    assert tab.page.locator("#count").inner_text() == "11 of 100 layers"
    tab.page.keyboard.press("Enter")
    assert tab.selected() == "blocks.0.attention.query"
    tab.page.keyboard.press("Enter")
    assert tab.selected() == "blocks.1.attention.query"
    assert tab.page.locator("#count").inner_text() == "2 of 11 layers"
    tab.page.keyboard.press("Shift+Enter")
    assert tab.selected() == "blocks.0.attention.query"
    tab.page.keyboard.press("Escape")
    assert tab.page.locator("#search").input_value() == ""
    assert row(tab, "blocks.5").count() == 1


def test_only_failing_lists_the_failing(tab: Tab) -> None:
    tab.page.get_by_label("Only failing").check()
    rows = tab.page.locator("#tree [role=treeitem]")
    assert rows.count() == 1
    assert CULPRIT in rows.inner_text()


def test_deep_link_is_followed_and_kept(open_page: Opener, html: str) -> None:
    tab = open_page(html, "#layer=blocks.3.mlp.fc1")
    tab.wait_for_chart()
    assert tab.selected() == "blocks.3.mlp.fc1"
    tab.page.evaluate("location.hash = '#layer=blocks.4.mlp'")
    expect(tab.page.locator("#detail h2 .mono")).to_have_text("blocks.4.mlp")
    tab.page.go_back()
    expect(tab.page.locator("#detail h2 .mono")).to_have_text("blocks.3.mlp.fc1")
    tab.page.keyboard.press("j")
    assert tab.selected() == "blocks.3.mlp.fc2" and tab.page.url.endswith("#layer=blocks.3.mlp.fc2")
    tab.page.keyboard.press("c")
    assert tab.selected() == CULPRIT


def test_a_deep_link_to_nothing_shows_the_culprit(open_page: Opener, html: str) -> None:
    tab = open_page(html, "#layer=no.such%ZZ")
    tab.wait_for_chart()
    assert tab.selected() == CULPRIT and tab.complaints == []


def test_permalink_is_copied(open_page: Opener, html: str) -> None:
    tab = open_page(html, "#layer=blocks.3", permissions=["clipboard-read", "clipboard-write"])
    tab.page.locator("#permalink").click()
    expect(tab.page.locator("#permalink")).to_have_text("Copied")
    assert tab.page.evaluate("navigator.clipboard.readText()") == tab.url + "#layer=blocks.3"


def test_click_on_a_point_of_the_chart_selects_its_layer(tab: Tab) -> None:
    tab.page.locator("#chart svg .mark-symbol.role-mark path").first.click(force=True)
    assert tab.selected() == "blocks.0.attention.query"


def test_click_between_the_points_selects_the_nearest_layer(tab: Tab) -> None:
    plot = tab.page.locator("#chart svg .concat_0_group").first.bounding_box()
    assert plot is not None
    points = tab.page.locator("#chart svg .mark-symbol.role-mark").first.locator("path")
    last = points.last.bounding_box()
    assert last is not None
    tab.page.mouse.click(last["x"] + 3, plot["y"] + 60)
    assert tab.selected() == "Large"


def test_arrow_keys_go_through_the_chart(tab: Tab) -> None:
    tab.page.locator("#chart").focus()
    tab.page.keyboard.press("ArrowRight")
    assert tab.selected() == "blocks.6.mlp"
    tab.page.keyboard.press("ArrowLeft")
    assert tab.selected() == CULPRIT


def test_graph_marks_the_culprit_and_unfolds_in_place(open_page: Opener, html: str) -> None:
    tab = open_page(html, "#layer=blocks.6")
    boxes = tab.page.locator("#graph .box")
    before = boxes.count()
    box(tab, "blocks.6.mlp").locator("> .fold").click()
    assert boxes.count() == before + 6
    blamed = box(tab, CULPRIT)
    assert "culprit" in (blamed.get_attribute("class") or "")
    assert "⚑ ✕" in (blamed.locator("text").first.text_content() or "")
    assert_apart(tab, ["blocks.6.attention", "blocks.6.mlp"])
    assert_within(box(tab, CULPRIT), box(tab, "blocks.6.mlp"))
    box(tab, "blocks.6.mlp").locator("> .fold").click()
    assert boxes.count() == before


def assert_apart(tab: Tab, names: list[str]) -> None:
    above, below = (box(tab, name).bounding_box() for name in names)
    assert above is not None and below is not None
    assert above["y"] + above["height"] < below["y"]


def assert_within(inner: Locator, outer: Locator) -> None:
    a, b = inner.bounding_box(), outer.bounding_box()
    assert a is not None and b is not None
    assert b["x"] < a["x"] and a["x"] + a["width"] < b["x"] + b["width"]
    assert b["y"] < a["y"] and a["y"] + a["height"] < b["y"] + b["height"]


def test_graph_is_used_by_keyboard(open_page: Opener, html: str) -> None:
    tab = open_page(html, "#layer=blocks.6")
    before = tab.page.locator("#graph .box").count()
    box(tab, "blocks.6.mlp").focus()
    tab.page.keyboard.press(" ")
    assert tab.page.locator("#graph .box").count() == before + 6
    tab.page.keyboard.press("Enter")
    assert tab.selected() == "blocks.6.mlp"


def test_five_thousand_layers_are_small_enough_and_draw(open_page: Opener, tmp_path: Path) -> None:
    html = render(make_run(tmp_path / "run", 5000))
    assert len(html.encode()) < 5_000_000
    tab = open_page(html, "#layer=Large")
    tab.wait_for_chart()
    assert tab.page.locator("#chart canvas").count() == 1 and tab.complaints == []
    assert re.search(r"not drawn: it has \d+ boxes", tab.page.locator("#graph").inner_text())
    assert tab.page.locator("#tree [role=treeitem]").count() == 1


def test_a_layer_has_its_numbers_heatmap_and_histograms(tab: Tab, run: Run) -> None:
    culprit = next(one for one in run.report.layers if one.name == CULPRIT)
    assert culprit.own is not None and culprit.picture is not None
    numbers = tab.page.locator(".numbers-table").inner_text()
    for shown in ("max abs error", "mean squared error", "cosine", "share of limit", "float32 [4, 16, 16]"):
        assert shown in numbers
    assert f"{culprit.own.max_abs:.3g}" in numbers
    assert tab.page.locator(".heatmap .cell").count() == 64
    assert tab.page.locator(".heatmap .worst").count() == 1
    assert tab.page.locator(".histogram .golden").count() == len(culprit.picture.golden)
    assert tab.page.locator(".histogram .candidate").count() == 1


def test_one_error_is_drawn_at_a_time_and_blocks_are_named_on_the_axis(tab: Tab) -> None:
    words = " ".join(tab.page.locator("#chart svg text").all_text_contents())
    assert "mean squared error" in words and "1 − cosine" not in words
    assert "blocks.0" in words and "blocks.5" in words
    drawn = tab.page.locator("#chart").get_attribute("data-drawn")
    tab.page.get_by_label("1 − cosine").check()
    expect(tab.page.locator("#chart")).not_to_have_attribute("data-drawn", drawn or "")
    words = " ".join(tab.page.locator("#chart svg text").all_text_contents())
    assert "1 − cosine" in words and "mean squared error" not in words


def test_edges_carry_shapes_and_no_box_says_its_name_twice(open_page: Opener, html: str) -> None:
    tab = open_page(html, "#layer=blocks.6")
    assert tab.page.locator("#graph .shape").all_text_contents().count("[4, 16, 64]") >= 3
    for op in tab.page.locator("#graph .box.op").all():
        name, *label = op.locator("> text").all_text_contents()
        assert not label or label[0].split(".")[0] != name.rpartition("_")[0]


def test_a_pass_looks_calm(open_page: Opener, html: str) -> None:
    tab = open_page(html, "#layer=blocks.3.mlp.fc1")
    assert tab.page.locator(".heatmap :is(.level-4, .level-5, .level-6)").count() == 0
    assert tab.page.locator(".heatmap .cell rect[class^=level-]").count() > 30
    tab = open_page(html, f"#layer={CULPRIT}")
    assert tab.page.locator(".heatmap :is(.level-4, .level-5, .level-6)").count() > 30


def test_the_rule_is_said_once_and_explained_in_the_page(tab: Tab) -> None:
    assert tab.page.locator(".verdict").inner_text().count("noise floor x 4") == 1
    assert "noise floor x 4" not in tab.page.locator("#culprit").inner_text()
    tab.page.get_by_role("link", name="noise floor x 4").click()
    expect(tab.page.locator("#how")).to_be_in_viewport()


def test_python_and_rust_stand_beside_each_other(open_page: Opener, html: str) -> None:
    tab = open_page(html, "#layer=blocks.6.mlp", viewport={"width": 1600, "height": 900})
    source = tab.page.locator("#source")
    assert "called at" in source.inner_text() and "bench_html.py" in source.inner_text()
    assert "impl Module for Mlp" in source.inner_text()
    assert source.locator("pre .k").count() > 0
    python, rust = (source.locator(".sides > div").nth(place).bounding_box() for place in (0, 1))
    assert python is not None and rust is not None
    assert python["x"] + python["width"] <= rust["x"]


def test_dark_is_followed_switched_and_remembered(open_page: Opener, html: str) -> None:
    tab = open_page(html, color_scheme="dark")

    def background() -> str:
        return tab.page.evaluate("getComputedStyle(document.body).backgroundColor")

    dark = background()
    tab.page.keyboard.press("d")
    light = background()
    assert sum(map(int, re.findall(r"\d+", dark))) < 150 < 600 < sum(map(int, re.findall(r"\d+", light)))
    tab.page.reload()
    assert background() == light
    tab.page.get_by_role("button", name="Dark").click()
    assert background() == dark


def test_help_opens_and_closes(tab: Tab) -> None:
    tab.page.keyboard.press("?")
    expect(tab.page.locator("#help")).to_be_visible()
    tab.page.keyboard.press("Escape")
    expect(tab.page.locator("#help")).to_be_hidden()


def test_print_has_verdict_culprit_chart_and_worst_layers_and_no_tools(tab: Tab) -> None:
    tab.page.emulate_media(media="print")
    for shown in (".verdict", "#culprit", "#chart", "#worst"):
        expect(tab.page.locator(shown)).to_be_visible()
    for hidden in ("header.bar", "#tree", "#graph", "#detail"):
        expect(tab.page.locator(hidden)).to_be_hidden()


@pytest.mark.parametrize("width", [1280, 800, 480, 360])
def test_page_is_not_wider_than_the_window(open_page: Opener, html: str, width: int) -> None:
    tab = open_page(html, viewport={"width": width, "height": 900})
    tab.wait_for_chart()
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width


def hostile_layer() -> Layer:
    return layer(HOSTILE, 0.5).model_copy(update={"type": f"net.{HOSTILE}", "source": f"{HOSTILE}.py:3"})


def test_hostile_names_do_nothing(open_page: Opener, tmp_path: Path) -> None:
    report = failing(0.5)
    assert report.first_divergence is not None
    culprit = report.first_divergence.model_copy(
        update={"layer": HOSTILE, "reason": HOSTILE, "type": HOSTILE, "edits": (HOSTILE,), "snippet": HOSTILE}
    )
    update = {"model": HOSTILE, "layers": (*report.layers, hostile_layer()), "first_divergence": culprit}
    # The policy of the page would stop the scripts as well: it is taken away, so that the escaping is what is tested.
    html = render(alone(report.model_copy(update=update), tmp_path))
    tab = open_page(html, bypass_csp=True)
    tab.wait_for_chart()
    tab.page.locator("#chart svg .mark-symbol.role-mark path").nth(4).hover(force=True)
    expect(tab.page.locator("#vg-tooltip-element")).to_contain_text(HOSTILE.split("\u2028")[0])
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("onerror")
    tab.page.keyboard.press("Enter")
    assert HOSTILE.split("\u2028")[0] in tab.selected()
    assert tab.page.evaluate("window.hacked ?? null") is None
    assert tab.page.locator("img").count() == 0
    assert tab.page.evaluate("document.scripts.length") == 4
    assert tab.requests == [tab.url] and tab.complaints == []
    link = tab.page.url
    other = open_page(html, "#" + link.partition("#")[2])
    assert HOSTILE.split("\u2028")[0] in other.selected()


def test_static_link_of_a_hostile_name_is_the_one_that_the_script_writes(
    open_page: Opener, tmp_path: Path
) -> None:
    html = render(
        alone(failing(0.5).model_copy(update={"layers": (layer("a", 0.0), hostile_layer())}), tmp_path)
    )
    tab = open_page(html, "#layer=a")
    tab.page.locator("#worst a", has_text="onerror").click()
    expect(tab.page.locator("#detail h2 .mono")).to_contain_text("onerror")
    assert tab.page.evaluate("location.hash") == tab.page.locator(
        "#worst a", has_text="onerror"
    ).get_attribute("href")


def test_report_alone_shows_what_it_can(open_page: Opener, tmp_path: Path) -> None:
    tab = open_page(render(alone(failing(0.5), tmp_path)))
    tab.wait_for_chart()
    assert tab.selected() == "head"
    assert "There is no graph to draw" in tab.page.locator("#graph").inner_text()
    expect(tab.page.locator("#source")).to_be_hidden()
    assert tab.complaints == []


def test_nan_has_a_lane_of_its_own(open_page: Opener, tmp_path: Path) -> None:
    tab = open_page(render(alone(failing(), tmp_path)))
    tab.wait_for_chart()
    assert tab.page.locator("#chart svg").get_by_text("NaN, Inf").count() == 2
    assert tab.complaints == []


def test_passing_report_has_no_culprit(open_page: Opener, tmp_path: Path) -> None:
    tab = open_page(render(alone(passing(), tmp_path)))
    tab.wait_for_chart()
    assert "PASS" in tab.page.locator("h1").inner_text()
    assert tab.page.locator("#culprit").count() == 0
    tab.page.keyboard.press("c")
    assert tab.complaints == []


def test_unsupported_run_lists_what_is_to_do(open_page: Opener, tmp_path: Path) -> None:
    tab = open_page(render(alone(unsupported(), tmp_path)))
    assert "UNSUPPORTED" in tab.page.locator("h1").inner_text()
    assert tab.page.get_by_text("aten.foo.default").count() == 12
    tab.page.keyboard.press("d")
    tab.page.keyboard.press("?")
    expect(tab.page.locator("#help")).to_be_visible()
    assert tab.complaints == [] and tab.requests == [tab.url]


def test_page_works_where_nothing_can_be_remembered(open_page: Opener, html: str) -> None:
    forbidding = "Object.defineProperty(window, 'localStorage', {get() { throw new Error('no'); }});"
    tab = open_page(html.replace("<head>", f"<head><script>{forbidding}</script>", 1), bypass_csp=True)
    tab.wait_for_chart()
    tab.page.keyboard.press("d")
    assert tab.page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert tab.complaints == []


def test_data_of_the_page_is_json(html: str) -> None:
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert text is not None
    data = json.loads(text.group(1))
    assert len(data["layers"]["name"]) == 100
