"""What a value shows by itself: slices in other places, numbers, another value of the layer; and no cause in noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchport.explain.weights import Others, how_it_differs
from torchport.trace.writing import write_tensors

from .suspects import suggestions, suspect_of

pytestmark = pytest.mark.slow


class Gated(nn.Module):
    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        return F.relu(x * torch.sigmoid(gate) + x)


class Masked(nn.Module):
    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(mask, -1e4)


def numbers() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, 6, 8, generator=generator), torch.randn(3, 6, 8, generator=generator)


GATED: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], str, str]] = {
    "rolled": (lambda x, gate: Gated()(x, gate).roll(2, 1), "shifted", "the result is rolled by 2 along axis 1"),
    "rolled back": (
        lambda x, gate: Gated()(x, gate).roll(-1, 2), "shifted", "the result is rolled by -1 along axis 2",
    ),
    "reversed": (lambda x, gate: Gated()(x, gate).flip(2), "permuted", "the result is reversed along axis 2"),
    "first everywhere": (
        lambda x, gate: Gated()(x, gate)[:1].expand(3, -1, -1),
        "permuted", "the result is slice 0 of axis 0 everywhere",
    ),
    "some zero": (
        lambda x, gate: Gated()(x, gate) * (torch.arange(8) % 3 != 0),
        "zeroed", "the result is zero at [0, 3, 6] of axis 2",
    ),
    "slices scaled": (
        lambda x, gate: Gated()(x, gate) * torch.where(torch.arange(6) == 4, 1.5, 1.0)[:, None],
        "scale", "the result is 1.5 times what it should be at [4] of axis 1",
    ),
    "swapped inputs": (lambda x, gate: Gated()(gate, x), "swapped_operands", "are swapped"),
    "sigmoid twice": (
        lambda x, gate: F.relu(x * torch.sigmoid(torch.sigmoid(gate)) + x), "repeated", "sigmoid is applied twice",
    ),
    "added twice": (
        lambda x, gate: F.relu(x * torch.sigmoid(gate) + 2 * x), "repeated", "is applied twice",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GATED)
def test_what_happened_to_a_value_is_read_off_it(name: str, tmp_path: Path) -> None:
    wrong, kind, text = GATED[name]
    found = suggestions(suspect_of(Gated(), numbers(), wrong, tmp_path), tmp_path)
    assert found and found[0].kind == kind and text in found[0].text


def test_another_mask_is_counted(tmp_path: Path) -> None:
    scores, _ = numbers()
    mask = torch.ones(6, 8, dtype=torch.bool).triu(2)
    other = mask.clone()
    other[0, :4], other[5, 7] = True, True
    wrong = lambda scores, mask: scores.masked_fill(other, -1e4)  # noqa: E731
    found = suggestions(suspect_of(Masked(), (scores, mask), wrong, tmp_path), tmp_path)
    more = 3 * int((other & ~mask).sum())
    assert found[0].kind == "mask" and f"{more} more and 0 fewer" in found[0].text


def test_a_weight_on_its_way_to_another_is_recognised(tmp_path: Path) -> None:
    one, other = torch.randn(8, 8), torch.randn(8, 8)
    path = tmp_path / "weights.safetensors"
    write_tensors(path, {"one": one, "other": other}, {"schema": "1"})
    fault = how_it_differs("one", 0.75 * one + 0.25 * other, one, Others(path))
    assert (fault.kind, fault.text) == ("mixed_weight", "one is 0.25 of the way to other")
    unrelated = how_it_differs("one", one + 0.1 * torch.randn(8, 8), one, Others(path))
    assert unrelated.kind == "stale_weight"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda y: y + 1e-3 * (torch.arange(y.numel()).reshape(y.shape) * 12.9898).sin(),
        lambda y: y * (1 + 1e-3 * (torch.arange(y.numel()).reshape(y.shape) * 78.233).cos()),
        lambda y: (y * 100).round() / 100,
        lambda y: y + 0.1 * y.abs().sqrt(),
    ],
    ids=["noise", "relative noise", "few digits", "another function"],
)
def test_noise_and_unrelated_differences_get_no_suggestion(
    spoil: Callable[[Tensor], Tensor], tmp_path: Path
) -> None:
    wrong = lambda x, gate: spoil(Gated()(x, gate))  # noqa: E731
    assert suggestions(suspect_of(Gated(), numbers(), wrong, tmp_path), tmp_path) == ()
