"""Names of numbers: each has a reason that is not its value, and what has none stays a literal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks import zoo
from tests.porting.resized_models import Decoder, Patches, Shape, tagger
from torchport.capture.graph import Graph
from torchport.capture.manifest import read_manifest
from torchport.capture.recorder import record
from torchport.capture.spec import load_spec
from torchport.errors import UsageError
from torchport.targets.candle.fitting import Column, Fitting
from torchport.targets.candle.writer import generate

SIZES = {"hidden": (64, 96, 128), "heads": (4, 8, 2), "ratio": (4.0, 2.5, 3.0), "image": (224, 336, 448)}


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ((64, 96, 128), "cfg.hidden"),
        ((16, 12, 64), "cfg.hidden / cfg.heads"),
        ((192, 288, 384), "3 * cfg.hidden"),
        ((257, 145, 4097), "(cfg.hidden / cfg.heads).pow(2) + 1"),
        ((7, 15, 3), "2 * cfg.heads - 1"),
        ((256, 240, 384), "(cfg.ratio * cfg.hidden as f64) as usize"),
        ((-4, -8, -2), "-(cfg.heads as i64)"),
        ((0.25, 12**-0.5, 0.125), "((cfg.hidden / cfg.heads) as f64).powf(-0.5)"),
        ((8.0, 96**0.5, 128**0.5), "(cfg.hidden as f64).sqrt()"),
        ((2.5, 4.5, 2.5), None),
        ((64, 64, 64), None),
    ],
)
def test_a_number_is_the_simplest_expression_that_holds_at_every_size(
    column: Column, text: str | None
) -> None:
    found = [expression.text for expression in Fitting(SIZES).explanations(column)]
    assert found[:1] == ([] if text is None else [text])


def captured(model: nn.Module, *args: torch.Tensor) -> Graph:
    return record(model.eval(), args).graph


def test_a_scale_follows_from_the_sizes_that_it_was_computed_from() -> None:
    generated = generate(captured(Decoder(), torch.zeros(2, 9, dtype=torch.int64)))
    assert generated.config == {"words": 50, "width": 32, "heads": 4, "depth": 2, "inner": 64}
    texts = {name.expression for name in generated.names}
    assert {"(cfg.width as f64).sqrt()", "((cfg.width / cfg.heads) as f64).sqrt()", "3 * cfg.width"} <= texts


def test_a_size_is_not_called_what_an_equal_size_is() -> None:
    generated = generate(captured(Patches(Shape()), torch.zeros(2, 3, 16, 16)))
    assert "nn::group_norm(cfg.groups, 2 * cfg.growth," in generated.source
    assert "nn::conv2d(cfg.channels, 2 * cfg.growth," in generated.source
    assert "nn::linear(2 * cfg.growth, cfg.classes," in generated.source


def test_a_model_that_cannot_be_made_again_has_literals_and_says_so() -> None:
    class Closed(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(5, width), nn.Linear(width, 7)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.down(self.up(x).relu())

    generated = generate(captured(Closed(8), torch.zeros(2, 5)))
    assert generated.config == {"out_features": 7, "in_features": 5}
    assert "nn::linear(cfg.in_features, 8," in generated.source
    assert "/// Sizes that are not here are fixed" in generated.source


def test_numbers_that_nothing_explains_refuse_other_sizes() -> None:
    class Odd(nn.Module):
        def __init__(self, width: int = 12) -> None:
            super().__init__()
            self.width = width
            self.layer = nn.Linear(3, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) * (self.width % 7 + 0.3)

    source = generate(captured(Odd(), torch.zeros(2, 3))).source
    assert "if *cfg != (Config {" in source and "is another at other sizes" in source


def test_a_factory_says_what_a_model_is_made_from(tmp_path: Path) -> None:
    subject = load_spec("tests.porting.resized_models:tagger")
    generated = generate(record(subject.model, subject.args).graph)
    assert generated.config == {"words": 40, "width": 16, "tags": 8, "window": 3}
    assert {name.expression for name in generated.names} >= {
        "2 * cfg.width",
        "cfg.width / 2",
        "cfg.window - 1",
    }


def test_arguments_of_the_constructor_are_noted_while_a_spec_runs(tmp_path: Path) -> None:
    (tmp_path / "closed.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, width, *, tags):\n"
        "        super().__init__()\n"
        "        self.up = torch.nn.Linear(3, width)\n"
        "        self.down = torch.nn.Linear(width, tags)\n"
        "    def forward(self, x):\n"
        "        return self.down(self.up(x))\n"
        "def net():\n"
        "    return Net(8, tags=8), (torch.zeros(2, 3),)\n"
    )
    subject = load_spec(f"{tmp_path / 'closed.py'}:net")
    generated = generate(record(subject.model, subject.args).graph)
    assert generated.config == {"width": 8, "tags": 8}
    assert "nn::linear(cfg.width, cfg.tags," in generated.source


def test_the_manifest_is_enough_and_one_without_variants_names_nothing_by_value(tmp_path: Path) -> None:
    capture = record(Decoder().eval(), torch.zeros(2, 9, dtype=torch.int64))
    paths = capture.named("net").save(tmp_path)
    graph, data = read_manifest(paths["manifest"])
    assert len(data["variants"]) >= 2 and generate(graph).source == generate(capture.graph).source
    data.pop("variants")
    paths["manifest"].write_text(json.dumps(data))
    earlier = generate(read_manifest(paths["manifest"])[0])
    assert earlier.source == generate(replace(graph, variants=())).source
    assert set(earlier.config) <= {"vocab_size", "out_features", "in_features"}


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(5, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x).relu()).tanh()


def test_hints_name_sizes_by_value_and_by_place() -> None:
    graph = captured(Plain(), torch.zeros(2, 5))
    by_value = generate(graph, hints={"hidden": 8})
    assert "nn::linear(cfg.hidden, cfg.hidden," in by_value.source
    by_place = generate(
        graph, hints={"hidden": ["up.weight[0]", "down.weight[1]"], "out": ["down.weight[0]"]}
    )
    assert by_place.config == {"in_features": 5, "hidden": 8, "out": 8} or "cfg.out" in by_place.source
    assert "nn::linear(cfg.hidden, cfg.out," in by_place.source
    assert {name.reason for name in by_place.names if name.expression == "cfg.out"} == {
        "a hint names down.weight[0]"
    }


@pytest.mark.parametrize("hint", [9, 8.5, ["up.weight[2]"], ["side.weight[0]"]])
def test_a_hint_that_fits_nothing_is_refused(hint: int | float | list[str]) -> None:
    with pytest.raises(UsageError, match="TP0109.*hidden"):
        generate(captured(Plain(), torch.zeros(2, 5)), hints={"hidden": hint})


def only_equal(graph: Graph) -> list[str]:
    """The names whose reason is no more than an equal value."""
    found = []
    for name in generate(graph).names:
        _, holds, values = name.reason.partition("sizes of the model: ")
        if not holds and "is what the model takes or gives" not in name.reason:
            found.append(f"{name.expression} in {name.layer}: {name.reason}")
        if holds and len(set(values.split(", "))) == 1:
            found.append(f"{name.expression} in {name.layer}: the same at all sizes: {values}")
    return found


def test_each_name_has_a_reason_that_is_not_its_value() -> None:
    for graph in (
        captured(Decoder(), torch.zeros(2, 9, dtype=torch.int64)),
        captured(Plain(), torch.zeros(2, 5)),
        captured(tagger()[0], torch.zeros(2, 12, dtype=torch.int64)),
    ):
        assert generate(graph).names and only_equal(graph) == []


@pytest.mark.zoo
@pytest.mark.parametrize("entry", sorted(zoo.ZOO))
def test_no_name_in_the_zoo_is_only_an_equal_value(entry: str) -> None:
    subject = load_spec(f"benchmarks.zoo:{entry}")
    assert only_equal(record(subject.model, subject.args, subject.kwargs).graph) == []
