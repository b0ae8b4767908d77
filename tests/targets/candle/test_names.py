"""Names of numbers: each has a reason that is not its value, and what has none stays a literal."""

from __future__ import annotations

import json
import math
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
        ((9, 13, 17), "cfg.hidden / 8 + 1"),
        ((20, 16, 22), "24 - cfg.heads"),
        ((5, 6, 8), None),
        ((2.5, 4.5, 2.5), None),
        ((64, 64, 64), None),
    ],
)
def test_a_number_is_the_simplest_expression_that_holds_at_every_size(
    column: Column, text: str | None
) -> None:
    found = [expression.text for expression in Fitting(SIZES).explanations(column)]
    assert found[:1] == ([] if text is None else [text])


HEAD_WITHOUT_ROTATED = "cfg.width / cfg.heads - (cfg.share * (cfg.width / cfg.heads) as f64) as usize"
AT_UNEVEN_SIZES = {
    "width": (64, 71, 1093),
    "heads": (4, 5, 9),
    "share": (0.5, 0.625, 0.7),
    "far": (128, 147, 99),
}


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (tuple(math.ceil(width / 16) for width in (64, 71, 1093)), "cfg.width.div_ceil(16)"),
        (tuple(width // 16 for width in (64, 71, 1093)), "cfg.width / 16"),
        (tuple(min(width, 512) // 4 for width in (64, 71, 1093)), None),
        ((16 - 8, 14 - int(0.625 * 14), 121 - int(0.7 * 121)), HEAD_WITHOUT_ROTATED),
        ((31, 34, 545), "cfg.width / 2 - 1"),
        ((math.log(128 / 16), math.log(147 / 17), math.log(99 / 273)), None),
        (
            (math.log(128 / 2), math.log(147 / 2), math.log(99 / 4)),
            "(cfg.far as f64 / ((cfg.heads / 2) as f64)).ln()",
        ),
        ((2.0, 147 / 71, 99 / 1093), "cfg.far as f64 / (cfg.width as f64)"),
    ],
)
def test_what_is_rounded_or_cut_off_is_not_taken_for_an_exact_part(column: Column, text: str | None) -> None:
    found = [expression.text for expression in Fitting(AT_UNEVEN_SIZES).explanations(column)]
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
    assert "if cfg.width != 12 {" in source and "is another at other sizes" in source


def test_a_name_of_a_first_size_is_fixed_beside_a_literal_that_may_follow_from_it() -> None:
    class Closed(nn.Module):
        def __init__(self, inner: int) -> None:
            super().__init__()
            self.layer, self.scale = nn.Linear(inner, 8), inner**-0.5

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) * self.scale

    source = generate(captured(Closed(16), torch.zeros(2, 16))).source
    assert "mul_scalar" in source and "0.25" in source
    assert "if cfg.in_features != 16 {" in source and "what becomes of the literals 0.25" in source


class Scaled(nn.Module):
    """Its scale is a tensor that is no weight."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        self.layer = nn.Linear(3, width)
        self.register_buffer("scale", torch.tensor((width // heads) ** -0.5), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.layer(x).unflatten(-1, (self.heads, -1)) * self.scale
        return parts.sum(-1) * torch.tensor(float(self.heads))


def test_a_tensor_that_is_one_number_and_no_weight_is_computed_from_sizes() -> None:
    source = generate(captured(Scaled(), torch.zeros(2, 3))).source
    assert "Tensor::new(((cfg.width / cfg.heads) as f64).powf(-0.5), vb.device())?" in source
    assert "Tensor::new(cfg.heads as f64, vb.device())?" in source
    assert 'vb.get((), "scale")' not in source


def test_a_table_that_is_no_weight_fixes_the_sizes_that_its_values_follow_from() -> None:
    class Table(nn.Module):
        def __init__(self, width: int = 12, heads: int = 3) -> None:
            super().__init__()
            self.width, self.heads = width, heads
            self.layer = nn.Linear(5, width)
            self.register_buffer("slopes", torch.arange(1.0, 6.0) / heads, persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x * self.slopes).unflatten(-1, (self.heads, -1)).sum(-1)

    graph = captured(Table(), torch.zeros(2, 5))
    assert graph.bound == {"heads": ("slopes",)}
    source = generate(graph).source
    assert "if cfg.heads != 3 {" in source and "if cfg.width != 12" not in source


def test_a_tensor_that_forward_makes_of_a_list_fixes_the_sizes_that_it_follows_from() -> None:
    class Listed(nn.Module):
        def __init__(self, width: int = 12, heads: int = 3) -> None:
            super().__init__()
            self.width, self.heads = width, heads
            self.layer = nn.Linear(5, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x).unflatten(-1, (self.heads, -1)).sum((1, 2)) * torch.tensor([1.0, self.heads])

    source = generate(captured(Listed(), torch.zeros(2, 5))).source
    assert "if cfg.heads != 3 {" in source and "if cfg.width != 12" not in source


def test_a_number_that_is_cut_off_or_rounded_is_not_taken_for_a_part() -> None:
    class Cut(nn.Module):
        def __init__(self, width: int = 64, length: int = 48) -> None:
            super().__init__()
            self.width, self.length = width, length
            self.layer, self.other = nn.Linear(3, width), nn.Linear(3, length)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kept = self.layer(x)[..., : min(self.width, 512) // 4].sum(-1)
            return kept + self.other(x)[..., : math.ceil(self.length / 16)].sum(-1)

    source = generate(captured(Cut(), torch.zeros(2, 3))).source
    assert "length.div_ceil(16)" in source and "length / 16" not in source
    assert "width / 4" not in source
    assert "if cfg.width != 64 {" in source and "if cfg.length != 48" not in source


class Step(nn.Module):
    def __init__(self, width: int, offset: int = 0) -> None:
        super().__init__()
        self.offset = offset
        self.layer = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layer(x.roll(self.offset, 1)).relu()


class Stages(nn.Module):
    def __init__(self, depths: tuple[int, ...] = (2, 1), width: int = 8) -> None:
        super().__init__()
        self.depths, self.width = depths, width
        self.up = nn.Linear(3, width)
        self.stages = nn.ModuleList([nn.Sequential(*(Step(width) for _ in range(n))) for n in depths])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(x)
        for stage in self.stages:
            x = stage(x)
        return x


class Alternating(nn.Module):
    def __init__(self, depth: int = 4, width: int = 8, window: int = 2) -> None:
        super().__init__()
        self.depth, self.width, self.window = depth, width, window
        self.up = nn.Linear(3, width)
        self.steps = nn.ModuleList([Step(width, i % 2 * (window // 2)) for i in range(depth)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(x)
        for step in self.steps:
            x = step(x)
        return x


class Tapped(nn.Module):
    def __init__(self, depth: int = 4, width: int = 8, tap: int = 2) -> None:
        super().__init__()
        self.depth, self.width, self.tap = depth, width, tap
        self.up = nn.Linear(3, width)
        self.steps = nn.ModuleList([Step(width) for _ in range(depth)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(x)
        tapped = x
        for index, step in enumerate(self.steps):
            x = step(x)
            tapped = x if index == self.tap else tapped
        return x + tapped


@pytest.mark.parametrize(
    ("model", "fields"),
    [(Stages(), {"depths", "width"}), (Alternating(), {"width", "window"}), (Tapped(), {"width"})],
)
def test_a_list_of_layers_that_cannot_be_longer_leaves_the_other_names(
    model: nn.Module, fields: set[str]
) -> None:
    graph = captured(model, torch.zeros(2, 6, 3))
    generated = generate(graph)
    assert generated.config.keys() == fields
    assert "one size" not in generated.source and "is fixed" not in generated.source


def test_items_of_a_list_that_nothing_reads_and_its_length_are_held() -> None:
    source = generate(captured(Stages(), torch.zeros(2, 6, 3))).source
    assert "if cfg.depths.len() != 2 {" in source and "if cfg.depths[1] != 1 {" in source
    assert "`depths[1]` must be 1" in source


def test_a_number_without_a_reason_fixes_only_the_sizes_that_it_moves_with() -> None:
    class Two(nn.Module):
        def __init__(self, width: int = 12, words: int = 40, eps: float = 1e-3) -> None:
            super().__init__()
            self.width, self.words, self.eps = width, words, eps
            self.embed, self.layer = nn.Embedding(words, width), nn.Linear(width, 5)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.layer(self.embed(ids)) * (self.width % 7 + 0.3) + self.eps

    source = generate(captured(Two(), torch.zeros(2, 3, dtype=torch.int64))).source
    assert "if cfg.width != 12 {" in source
    assert "if cfg.words" not in source and "if cfg.eps" not in source


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
    assert by_place.config == {"hidden": 8, "out": 8, "in_features": 5}
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
