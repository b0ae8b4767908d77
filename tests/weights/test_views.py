"""Tensors that are made of others: every part of them is what numpy makes, and is read once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from torchport.weights import views
from torchport.weights.checkpoint import opened
from torchport.weights.rules import read_rules
from torchport.weights.stored import InMemory
from torchport.weights.table import applied, table_of
from torchport.weights.views import Joined, pieces


@pytest.mark.parametrize("piece", [7, 10_000])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_part_of_what_is_joined_is_that_of_the_whole(
    axis: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "PIECE", piece)
    shapes = [tuple(size if at == axis else 4 for at in range(3)) for size in (3, 1, 5)]
    parts = [torch.randn(shape) for shape in shapes]
    joined = Joined(tuple(InMemory(part) for part in parts), axis)
    expected = torch.cat(parts, dim=axis).numpy().reshape(-1)
    size = len(expected)
    for start, stop in [(0, size), (0, 1), (size - 1, size), (5, 23), (19, 20), (30, size - 3)]:
        assert np.array_equal(joined.bits(start, stop, np.empty(0, np.uint8)), expected[start:stop])
    assert np.array_equal(np.concatenate([one.copy() for one in pieces(joined)]), expected)


MOE = r"""
rules:
  - {merge: ['(e\.\d+)\.gate', '(e\.\d+)\.up'], into: '\1.gate_up'}
  - {stack: 'e\.\d+\.gate_up', into: gate_up}
"""


def test_experts_that_are_merged_and_then_stacked_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "PIECE", 512)
    given = {f"e.{expert}.{name}": torch.randn(64, 32) for expert in range(3) for name in ("gate", "up")}
    save_file(given, tmp_path / "w.safetensors")
    (tmp_path / "rules.yaml").write_text(MOE)
    expected = torch.stack([torch.cat([given[f"e.{e}.gate"], given[f"e.{e}.up"]]) for e in range(3)])
    read = 0
    with opened([tmp_path / "w.safetensors"]) as checkpoint:
        table = applied(table_of(checkpoint.tensors, ("",)), read_rules(tmp_path / "rules.yaml").rules)
        stored = table.entries["gate_up"].stored
        fill = views.InFile.bits

        def counted(self: views.InFile, start: int, stop: int, room: np.ndarray) -> np.ndarray:
            nonlocal read
            read += stop - start
            return fill(self, start, stop, room)

        monkeypatch.setattr(views.InFile, "bits", counted)
        monkeypatch.setattr(views, "whole", lambda _: pytest.fail("the whole tensor was read for a piece"))
        found = np.concatenate([one.copy() for one in pieces(stored)])
    assert np.array_equal(found.reshape(expected.shape), expected.numpy())
    assert read == expected.numel()
