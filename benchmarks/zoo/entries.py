"""The list that the zoo's entries are added to, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Subject = tuple[nn.Module, tuple] | tuple[nn.Module, tuple, dict[str, Any]]
Factory = Callable[[], Subject]
ZOO: dict[str, Factory] = {}
PROVEN: list[str] = []
"""The entries that `make test` proves; `make zoo` proves the others."""
OTHER_SIZES: dict[str, tuple[str, Callable[[], tuple]]] = {}
"""Entry → axes that are left free (as `--dynamic` takes them), and inputs of sizes that were not recorded."""

SMALL = {
    "vocab_size": 99,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}


def entry(factory: Factory, name: str | None = None, *, proven: bool = True) -> Factory:
    """Adds a factory, seeded, under its name. It is proven by `make test`, or else by `make zoo`."""
    label = name or factory.__name__

    def seeded() -> Subject:
        torch.manual_seed(0)
        model, *inputs = factory()
        return (model.eval(), *inputs)  # type: ignore[return-value]

    seeded.__name__ = label
    ZOO[label] = seeded
    if proven:
        PROVEN.append(label)
    return seeded


def in_zoo(factory: Factory) -> Factory:
    """Adds a factory that `make zoo` proves."""
    return entry(factory, proven=False)


def at_other_sizes(name: str) -> Factory:
    """The entry with inputs of sizes that were not recorded."""

    def build() -> Subject:
        model, *_ = ZOO[name]()
        return model, OTHER_SIZES[name][1]()

    return build


def ids(batch: int = 1, length: int = 16) -> torch.Tensor:
    return torch.randint(3, 99, (batch, length))


def train_statistics(model: nn.Module, batch: Callable[[], tuple]) -> None:
    """Lets BatchNorm see data, so that its statistics are not the initial ones."""
    model.train()
    with torch.no_grad():
        for _ in range(3):
            model(*batch())
    model.eval()
