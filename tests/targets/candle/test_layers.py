"""The table of layers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from torchport.targets.candle.layers.table import LAYERS, LeafModule, NotALayer, RuntimeLayer, layer


@pytest.fixture(autouse=True)
def _same_table_afterwards() -> Iterator[None]:
    before = dict(LAYERS)
    yield
    LAYERS.clear()
    LAYERS.update(before)


def never(leaf: LeafModule) -> RuntimeLayer:
    raise NotALayer


def test_a_second_entry_for_a_class_raises() -> None:
    before = LAYERS["torch.nn.modules.linear.Linear"]
    with pytest.raises(ValueError, match=r"layer torch\.nn\.modules\.linear\.Linear is registered twice"):
        layer("linear.Linear")(never)
    assert LAYERS["torch.nn.modules.linear.Linear"] is before


def test_a_class_that_is_named_twice_in_one_entry_raises() -> None:
    with pytest.raises(ValueError, match="registered twice"):
        layer("made.Up", "made.Up")(never)
