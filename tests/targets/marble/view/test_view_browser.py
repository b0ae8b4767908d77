"""The page of a graph in a browser: what it shows of neurons is what the core says, and it stays small and usable."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import expect

from torchport.targets.marble.core.core import Core
from torchport.targets.marble.core.views import Synapse
from torchport.targets.marble.view import wiring
from torchport.targets.marble.view.page import render

from ....browser import Opener, Tab
from . import graphs
from .test_view_data import HOSTILE, hostile

GRAPHS = (
    graphs.perceptron,
    graphs.convolutions,
    graphs.encoder,
    graphs.choices,
    graphs.built,
    graphs.pruned,
    graphs.without_a_neuron,
)


def exported(tab: Tab, kind: str) -> str:
    with tab.page.expect_download() as download:
        tab.page.get_by_role("button", name=f"Export {kind}").click()
    return Path(download.value.path()).read_text(encoding="utf-8")


def shown_synapses(tab: Tab, which: str) -> list[tuple[int, float]]:
    rows = tab.page.locator(f"#{which} .row")
    ids, weights = rows.locator(".id").all_inner_texts(), rows.locator(".weight").all_inner_texts()
    return [(int(id), float(weight)) for id, weight in zip(ids, weights, strict=True)]


def same_synapses(found: list[dict[str, Any]], expected: list[Synapse]) -> bool:
    return [(one["source"], one["number"]) for one in found] == [
        (one.source, one.number) for one in expected
    ] and [one["weight"] for one in found] == pytest.approx([one.weight for one in expected], rel=1e-6)


@pytest.mark.parametrize("made", GRAPHS, ids=lambda made: made.__name__)
def test_every_neuron_and_synapse_is_what_the_core_says(open_page: Opener, made: Callable[[], Core]) -> None:
    core = made()
    tab = open_page(render(core))
    neurons = json.loads(exported(tab, "JSON"))["neurons"]
    assert sorted(one["id"] for one in neurons) == sorted(core.neurons)
    for shown in neurons:
        neuron = core.neurons[shown["id"]]
        for name in ("neuron_type", "formula", "layer", "group", "activation", "tier"):
            assert shown[name] == getattr(neuron, name)
        assert tuple(shown["position"]) == neuron.position
        assert shown["bias"] == (None if neuron.bias is None else pytest.approx(neuron.bias, rel=1e-6))
        assert same_synapses(shown["synapses"], core.synapses.of(neuron.id)), neuron
    assert tab.complaints == [] and tab.requests == [tab.url]


@pytest.mark.parametrize("made", GRAPHS, ids=lambda made: made.__name__)
def test_chosen_neurons_show_their_synapses_in_both_directions(
    open_page: Opener, made: Callable[[], Core]
) -> None:
    core = made()
    tab = open_page(render(core))
    for group in core.groups():
        if not group.neurons:
            continue
        id = group.ids[len(group.ids) // 3]
        tab.page.get_by_label("Neuron", exact=True).fill(str(id))
        tab.page.keyboard.press("Enter")
        expect(tab.page.locator("#chosen")).to_have_text(str(id))
        for which, end, synapses in (
            ("incoming", "source", core.synapses.of(id)),
            ("outgoing", "target", core.synapses.out_of(id)),
        ):
            shown = shown_synapses(tab, which)
            magnitudes = [abs(weight) for _, weight in shown]
            assert magnitudes == sorted(magnitudes, reverse=True)
            for other, weight in shown:
                assert any(
                    getattr(one, end) == other and weight == pytest.approx(one.weight, rel=1e-5)
                    for one in synapses
                )
            assert len(shown) >= min(12, len(synapses))
    assert tab.complaints == []


def test_a_neuron_is_found_by_its_id_and_its_facts_are_shown(open_page: Opener) -> None:
    core = graphs.perceptron()
    tab = open_page(render(core))
    tab.page.keyboard.press("n")
    tab.page.keyboard.type("20")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#chosen")).to_have_text("20")
    neuron = core.neurons[20]
    facts = tab.page.locator("#detail .facts").inner_text()
    for words in ("weighted sum", "Σ w·x + b", "[0, 4] of [2, 16]", "0/linear"):
        assert words in facts
    assert float(facts.partition("Bias\n")[2].partition("\n")[0]) == pytest.approx(neuron.bias, rel=1e-6)
    tab.page.locator("#incoming .row").first.locator(".go").click()
    strongest = max(core.synapses.of(20), key=lambda one: abs(one.weight))
    expect(tab.page.locator("#chosen")).to_have_text(str(strongest.source))
    tab.page.go_back()
    expect(tab.page.locator("#chosen")).to_have_text("20")
    tab.page.get_by_label("Neuron", exact=True).fill("88")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#find-answer")).to_have_text("There is no neuron 88.")


def test_layers_unfold_to_groups_and_groups_list_their_neurons(open_page: Opener) -> None:
    tab = open_page(render(graphs.encoder()))
    rows = tab.page.locator("#tree [role=treeitem]")
    names = tab.page.locator("#tree .name")
    assert names.all_inner_texts() == ["src", "layers"]
    tree = tab.page.locator("#tree")
    tree.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"):
        tab.page.keyboard.press(key)
    assert names.all_inner_texts()[:4] == ["src", "layers", "0", "self_attn"]
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        tab.page.keyboard.press(key)
    assert "linear" in names.all_inner_texts()
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#neurons-title")).to_have_text("Neurons of layers.0.self_attn/linear")
    expect(tab.page.locator("#listed")).to_have_text("72 neurons")
    assert "layers.0.self_attn.in_proj_weight" in tab.page.locator("#heat-note").inner_text()
    tab.page.keyboard.press("ArrowLeft")
    tab.page.keyboard.press("ArrowLeft")
    assert "linear" not in names.all_inner_texts()
    assert rows.first.get_attribute("aria-level") == "1"


def test_filters_by_layer_and_by_kind(open_page: Opener) -> None:
    core = graphs.encoder()
    tab = open_page(render(core))
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("norm1")
    normed = [group for group in core.groups() if "norm1" in group.layer and group.neurons]
    expect(tab.page.locator("#listed")).to_have_text(f"{sum(g.neurons for g in normed)} neurons")
    tab.page.get_by_label("Filter by kind of neuron").select_option("product")
    products = [group for group in normed if group.kind == "product"]
    expect(tab.page.locator("#listed")).to_have_text(f"{sum(g.neurons for g in products)} neurons")
    expect(tab.page.locator("#count")).to_contain_text(f"{len(products)} of ")
    assert set(tab.page.locator("#tree .class").all_inner_texts()[-len(products) :]) == {"product"}


def test_selected_neurons_are_exported(open_page: Opener) -> None:
    core = graphs.perceptron()
    tab = open_page(render(core), "#group=2%2Flinear")
    tab.page.locator("#neurons").focus()
    for key in (" ", "ArrowDown", "ArrowDown", " "):
        tab.page.keyboard.press(key)
    expect(tab.page.locator("#listed")).to_have_text("8 neurons; 2 selected")
    rows = list(csv.DictReader(io.StringIO(exported(tab, "CSV"))))
    assert [int(row["id"]) for row in rows] == [80, 82]
    assert [row["synapses"] for row in rows] == ["16", "16"] and rows[0]["layer"] == "2"
    assert float(rows[1]["bias"]) == pytest.approx(core.neurons[82].bias)
    assert [one["id"] for one in json.loads(exported(tab, "JSON"))["neurons"]] == [80, 82]
    tab.page.get_by_role("button", name="Clear selection").click()
    assert len(list(csv.DictReader(io.StringIO(exported(tab, "CSV"))))) == 8


def test_ten_thousand_neurons_are_never_ten_thousand_elements(open_page: Opener) -> None:
    core = graphs.perceptron(wide=5000)
    assert len(core.neurons) > 20_000
    tab = open_page(render(core))

    def elements() -> int:
        found: int = tab.page.evaluate("document.querySelectorAll('*').length")
        return found

    most = [elements()]
    for share in (0.1, 0.5, 0.77, 1.0):
        tab.page.evaluate(
            "share => { const box = document.getElementById('neurons'); box.scrollTop = share * box.scrollHeight; }",
            share,
        )
        expect(tab.page.locator("#neurons .row").first).to_be_visible()
        most.append(elements())
    last = max(core.neurons)
    expect(tab.page.locator("#neurons .row .id").last).to_have_text(str(last))
    tab.page.evaluate(f"location.hash = '#neuron={last}'")
    expect(tab.page.locator("#chosen")).to_have_text(str(last))
    most.append(elements())
    tab.page.locator("#incoming").focus()
    tab.page.keyboard.press("End")
    expect(tab.page.locator("#incoming .row.active")).to_have_attribute("aria-posinset", "5000")
    most.append(elements())
    assert max(most) < 1000, most


def test_more_neurons_than_are_listed_are_found_by_id(open_page: Opener) -> None:
    tab = open_page(render(graphs.perceptron(), most_neurons=10))
    expect(tab.page.locator("#listed")).to_have_text(
        "88 neurons, the first 10 listed: any other is found by its id"
    )
    tab.page.evaluate("location.hash = '#neuron=87'")
    expect(tab.page.locator("#chosen")).to_have_text("87")
    assert len(shown_synapses(tab, "incoming")) == 16


def test_what_is_left_out_is_said_with_the_way_to_get_it(
    open_page: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "MOST_LISTED", 0)
    core = graphs.core_of(torch.nn.ConvTranspose2d(1, 1, 2), torch.randn(1, 1, 4, 4))
    tab = open_page(render(core), "#neuron=17")
    assert "core.synapses.of(17)" in tab.page.locator("#detail").inner_text()
    assert "its synapses are not in the page" in (tab.page.locator(".notes").text_content() or "")
    tab = open_page(render(graphs.perceptron(), most_bytes=0), "#neuron=20")
    assert "core.synapses.of(20) gives them" in tab.page.locator("#detail").inner_text()
    assert "core.neurons[20].bias" in tab.page.locator("#detail .facts").inner_text()
    assert "0.weight is not in the page" in tab.page.locator("#heat-note").inner_text()
    assert tab.complaints == []


def test_hostile_names_do_nothing(open_page: Opener) -> None:
    # The policy of the page would stop the scripts as well: it is taken away, so that the escaping is what is tested.
    tab = open_page(render(hostile()), bypass_csp=True)
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("onerror")
    tab.page.locator("#tree .row").last.click()
    tab.page.locator("#neurons .row").first.click()
    expect(tab.page.locator("#chosen")).to_be_visible()
    assert HOSTILE.split("\u2028")[0] in tab.page.locator("#detail").inner_text()
    assert tab.page.evaluate("window.hacked ?? null") is None
    assert tab.page.locator("img").count() == 0
    assert tab.page.evaluate("document.scripts.length") == 3
    assert tab.requests == [tab.url] and tab.complaints == []
    other = open_page(render(hostile()), "#" + tab.page.url.partition("#")[2])
    assert other.page.locator("#chosen").inner_text() == tab.page.locator("#chosen").inner_text()


@pytest.mark.parametrize("width", [1280, 420])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_the_window_and_can_be_read(open_page: Opener, width: int, scheme: str) -> None:
    tab = open_page(
        render(graphs.encoder()), "#neuron=30", viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    expect(tab.page.locator("#chosen")).to_have_text("30")
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    paper, ink = (
        tab.page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("backgroundColor", "color")
    )
    bright, dark = (sum(map(int, re.findall(r"\d+", colour))) for colour in (paper, ink))
    assert (bright > 600 and dark < 150) if scheme == "light" else (bright < 150 and dark > 600)
    unnamed = tab.page.evaluate(
        """[...document.querySelectorAll('button, input, select, [role=listbox], [role=tree], canvas')].filter(
        (one) => !(one.textContent.trim() || one.labels?.length || one.getAttribute('aria-label'))).length"""
    )
    assert unnamed == 0 and tab.complaints == []
