"""`Generated.structs`: the struct of each module, as whoever wrote the source knows it."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor, nn

from benchmarks import zoo
from torchport.capture.recorder import record
from torchport.targets.candle.layers import is_layer
from torchport.targets.candle.target import TARGET
from torchport.targets.candle.writer import generate


class Block(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.dense = nn.Linear(before, after)
        self.shortcut = nn.Linear(before, after) if before != after else None

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(x).relu() + (x if self.shortcut is None else self.shortcut(x))


class Twin(nn.Module):
    """Computes something else for a vector than for a matrix, so that it becomes two structs."""

    def forward(self, x: Tensor) -> Tensor:
        return x.exp() * 2 if x.dim() == 2 else x.tanh() - 1


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(4, 4), Block(4, 4), Block(4, 8)])
        self.twin = Twin()
        self.head = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(self.twin(x)).sum() * self.twin(x[0])


def test_each_module_with_code_of_its_own_has_a_struct_and_layers_have_none() -> None:
    generated = generate(record(Net(), torch.randn(2, 4)).graph)
    assert generated.structs == {
        "": "Net",
        "blocks.0": "Block",
        "blocks.1": "Block",
        "blocks.2": "BlockWithShortcut",
        "twin": "Twin",
        "twin@1": "Twin2",
        "head": "Head",
    }


def test_the_root_has_the_name_that_the_user_asks_for() -> None:
    generated = generate(record(Net(), torch.randn(2, 4)).graph, model="my net")
    assert generated.structs[""] == generated.model == "MyNet"


def test_a_model_that_is_one_layer_has_a_struct_around_it() -> None:
    assert generate(record(nn.Linear(4, 2), torch.randn(2, 4)).graph).structs == {"": "Linear2"}


@pytest.mark.slow
def test_the_names_are_those_of_the_source() -> None:
    for name in ("resnet18", "bert"):
        model, args = zoo.ZOO[name]()
        graph = record(model, args, truth=False, decompose=lambda op: not TARGET.supports(op)).graph
        generated = generate(graph)
        declared = re.findall(r"^(?:pub )?struct (\w+)", generated.source, re.MULTILINE)
        assert {*generated.structs.values(), "Config"} == set(declared)
        layers = {key for key, module in graph.modules.items() if key and is_layer(graph, module)}
        assert generated.structs.keys() == graph.modules.keys() - layers
