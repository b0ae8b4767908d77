"""Which weights can be in blocks, and why the others are not."""

from __future__ import annotations

import torch
from torch import nn

from torchport.capture.recorder import record
from torchport.quant.chosen import Chosen, choose


class Net(nn.Module):
    """A table that is tied to a head, a norm, a convolution, and a matrix that is used in two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 32)
        self.norm = nn.LayerNorm(32)
        self.conv = nn.Conv1d(3, 3, 1)
        self.fc = nn.Linear(32, 32)
        self.both = nn.Parameter(torch.randn(32, 32))
        self.head = nn.Linear(32, 7, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.fc(self.conv(self.norm(self.table(ids))))
        hidden = nn.functional.linear(hidden, self.both) + self.both[:3]
        return self.head(hidden)


def chosen() -> Chosen:
    return choose(record(Net().eval(), (torch.tensor([[1, 2, 3]]),), name="net").graph)


def test_matrices_that_are_only_multiplied_or_looked_up_are_candidates() -> None:
    found = chosen()
    assert set(found.candidates) == {"table.weight", "fc.weight"}
    assert found.candidates["fc.weight"].shape == (32, 32) and found.candidates["fc.weight"].layer == "fc"
    assert found.candidates["table.weight"].is_looked_up and not found.candidates["fc.weight"].is_looked_up
    assert not found.candidates["table.weight"].is_table, "it is the head's weight, too"


def test_every_other_weight_stays_with_a_reason() -> None:
    floats = chosen().floats
    assert floats["norm.weight"] == "parameter with 1 axis"
    assert floats["conv.weight"] == "parameter with 3 axes"
    assert floats["both"].startswith("parameter read by aten.slice")
    assert set(floats) == {"norm.weight", "norm.bias", "conv.weight", "conv.bias", "fc.bias", "both"}
