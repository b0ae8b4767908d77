"""What is written into the page of a graph: ids in few numbers, arrays in limited room, text that cannot break out."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from torchport.errors import UsageError
from torchport.targets.marble.core.builder import GraphBuilder
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.view import arrays, write_view
from torchport.targets.marble.view.packed import ids_of
from torchport.targets.marble.view.page import render

from .graphs import encoder, perceptron

HOSTILE = """</script><img src=x onerror="window.hacked=1">"'`{{7*7}}\u2028 ü#/&=%"""


def data_in(html: str) -> dict[str, Any]:
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert text is not None
    found: dict[str, Any] = json.loads(text.group(1))
    return found


def hostile() -> Core:
    builder = GraphBuilder(HOSTILE)
    x = builder.input(2, name=f"x{HOSTILE}".replace("!", ""))
    return builder.build(builder.linear_layer(x, torch.randn(2, 2), name=HOSTILE.replace("!", "")))


def test_data_is_json_and_no_name_ends_its_script() -> None:
    html = render(hostile())
    data = data_in(html)
    assert data["model"] == HOSTILE
    assert HOSTILE in {group["name"] for group in data["groups"]}
    assert "<img" not in html
    assert "&lt;/script&gt;&lt;img src=x onerror=&#34;" in html, "the title is escaped by the template"


def test_nothing_is_fetched_and_only_own_scripts_run(tmp_path: Path) -> None:
    path = tmp_path / "pages" / "graph.html"
    write_view(perceptron(), path)
    html = path.read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None and policy.group(1).startswith(
        "default-src &#39;none&#39;; script-src &#39;sha256-"
    )
    assert not re.search(r"""(src|href)=["']?https?:""", html)


def test_layers_are_in_order_each_after_the_one_around_it() -> None:
    data = data_in(render(encoder()))
    names = [layer["name"] for layer in data["layers"]]
    assert names[:3] == ["layers", "layers.0", "layers.0.self_attn"]
    assert all(
        layer["parent"] is None or layer["parent"] < place for place, layer in enumerate(data["layers"])
    )
    assert sum(group["count"] for group in data["groups"]) == data["neurons"]


def test_counts_are_those_of_the_core() -> None:
    core = encoder()
    data = data_in(render(core))
    assert (data["neurons"], data["synapses"]) == (len(core.neurons), len(core.synapses))


def unpacked(ids: dict[str, Any], shape: torch.Size) -> np.ndarray:
    if "steps" in ids:
        found = np.array(ids["first"])
        for size, step in zip(shape, ids["steps"], strict=True):
            found = found[..., None] + np.arange(size) * step
        return found.reshape(-1)
    (kind,) = ids
    numbers = np.frombuffer(base64.b64decode(ids[kind]), dtype="<i4")
    if kind == "list":
        return numbers
    runs = numbers.reshape(-1, 3)
    return np.concatenate([first + step * np.arange(length) for first, step, length in runs])


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        (torch.arange(24).reshape(2, 3, 4) + 5, "steps"),
        (torch.arange(24).reshape(2, 3, 4).permute(2, 0, 1), "steps"),
        (torch.arange(4).expand(3, 4), "steps"),
        (torch.arange(6).flip(0), "steps"),
        (torch.tensor(7), "steps"),
        (torch.zeros(0, 3, dtype=torch.int64), "steps"),
        (torch.cat([torch.arange(50), torch.arange(90, 140)]), "runs"),
        (torch.cat([torch.full((20,), -1), torch.arange(30), torch.full((20,), -1)]), "runs"),
        (torch.cat([torch.arange(40).reshape(4, 10), torch.arange(100, 140).reshape(4, 10)], 1), "runs"),
        (torch.tensor([3, 1, 4, 1, 5, 9, 2, 6]), "list"),
    ],
)
def test_ids_that_arrive_are_kept_in_few_numbers_and_lose_nothing(ids: torch.Tensor, kind: str) -> None:
    found = ids_of(ids)
    assert found is not None and kind in found
    assert unpacked(found, ids.shape).tolist() == ids.reshape(-1).tolist()


def test_random_ids_lose_nothing() -> None:
    for _ in range(200):
        ids = torch.randint(0, 4, (int(torch.randint(2, 30, ())),)).cumsum(0)
        found = ids_of(ids)
        assert found is not None
        assert unpacked(found, ids.shape).tolist() == ids.tolist()


def decoded(array: dict[str, Any]) -> np.ndarray:
    values = np.frombuffer(base64.b64decode(array["values"]), dtype=f"<{array['form']}").astype(np.float64)
    return values * array["step"] + array["low"] if array["form"] == "u1" else values


@pytest.mark.parametrize(
    ("room", "form"), [(10**6, "f4"), (300_000, "f2"), (150_000, "u1"), (30_000, "picture"), (100, "none")]
)
def test_an_array_is_as_exact_as_there_is_room_for_and_its_error_is_said(room: int, form: str) -> None:
    weight = torch.randn(300, 300)
    (shown,) = arrays.shown({"w": weight}, room)
    assert shown.form == form
    assert len(json.dumps(shown.data)) <= room + 300
    if form in ("picture", "none"):
        assert shown.loss is not None and "left out" in shown.loss
        return
    apart = np.abs(decoded(shown.data) - weight.reshape(-1).double().numpy()).max()
    assert apart <= shown.data["error"] * (1 + 1e-6) <= {"f4": 0, "f2": 2e-3, "u1": 3e-2}[form] * (1 + 1e-6)
    assert (shown.loss is None) == (form == "f4")


def test_the_largest_arrays_are_rounded_first() -> None:
    given = {"large": torch.randn(200, 100), "small": torch.randn(10)}
    forms = {one.name: one.form for one in arrays.shown(given, 60_000)}
    assert forms == {"large": "f2", "small": "f4"}


@pytest.mark.parametrize(
    ("array", "forms"),
    [
        (torch.tensor([1e30, 1.0]), ["f4", "u1"]),
        (torch.tensor([float("nan"), 1.0, float("inf")]), ["f4", "picture"]),
        (torch.tensor([2**40 + 1, 5]), ["f8", "f4"]),
        (torch.tensor([True, False, True]), ["u1", "picture"]),
        (torch.tensor([1j]), ["none"]),
    ],
)
def test_a_form_that_cannot_hold_an_array_is_passed_over(array: torch.Tensor, forms: list[str]) -> None:
    assert arrays._ladder(array, arrays._values(array))[: len(forms)] == forms
    (shown,) = arrays.shown({"a": array}, 10**6)
    json.dumps(shown.data, allow_nan=False)


def test_a_picture_has_the_largest_of_each_block() -> None:
    weight = torch.zeros(200, 130)
    weight[3, 100], weight[0, 99], weight[199, 129] = -5.0, 1.0, 2.0
    picture = arrays._picture(weight.numpy())
    assert picture.shape == (50, 44)
    assert picture[0, 33] == -5.0 and picture[49, 43] == 2.0 and np.count_nonzero(picture) == 2


def test_a_page_keeps_to_its_size_and_says_what_it_left_out() -> None:
    core = perceptron(wide=4000)
    large, small = render(core), render(core, most_bytes=130_000)
    assert len(small.encode()) <= 130_000 < len(large.encode())
    assert data_in(large)["notes"] == []
    assert any(note.startswith("0.weight: ") for note in data_in(small)["notes"])
    assert "left out" in small


@pytest.mark.parametrize("limits", [{"most_neurons": 0}, {"most_bytes": -1}])
def test_limits_that_mean_nothing_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        render(perceptron(), **limits)
