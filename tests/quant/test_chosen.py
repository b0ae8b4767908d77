"""Which weights can be in blocks, and why the others are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

from torchport.capture.recorder import record
from torchport.errors import QuantError
from torchport.quant.chosen import Chosen, choose
from torchport.quant.measuring import importance_of, mix_of
from torchport.trace.reading import Trace


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


# What a weight is multiplied with


class Projection(nn.Module):
    """A layer of transformers' GPT-2, which has its weight with the inputs first."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(torch.randn(inputs, outputs) / 16),
            nn.Parameter(torch.randn(outputs)),
        )

    def forward(self, xs: torch.Tensor) -> torch.Tensor:
        rows = torch.addmm(self.bias, xs.reshape(-1, xs.size(-1)), self.weight)
        return rows.view(*xs.shape[:-1], -1)


class Attending(nn.Module):
    """A table that is tied to a head, attention, and products outside of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(40, 128)
        self.attention = nn.MultiheadAttention(128, 4, batch_first=True)
        self.projection = Projection(128, 256)
        self.back = nn.Parameter(torch.randn(256, 128) / 16)
        self.head = nn.Linear(128, 40, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.table(ids)
        hidden = self.attention(hidden, hidden, hidden, need_weights=False)[0]
        return self.head(self.projection(hidden) @ self.back)


def given_to(model: nn.Module, path: str, ids: torch.Tensor) -> torch.Tensor:
    """What a layer is given, by a hook."""
    seen: list[torch.Tensor] = []
    with (
        torch.no_grad(),
        _hooked(model.get_submodule(path), lambda args: seen.append(args[0])),
    ):
        model(ids)
    return seen[0]


@contextmanager
def _hooked(module: nn.Module, see: Callable[[tuple[torch.Tensor, ...]], None]) -> Iterator[None]:
    handle = module.register_forward_pre_hook(lambda _, args: see(args))
    yield
    handle.remove()


@pytest.mark.parametrize("length", [12, 128], ids=["another width", "the width of the weight"])
def test_the_importance_of_a_weight_is_of_what_it_is_multiplied_with(length: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Attending().eval()
    ids = torch.arange(2 * length).remainder(40).reshape(2, length)
    recorded = record(model, (ids,), name="attending", truth=False)
    found = choose(recorded.graph)
    with Trace(recorded.save(tmp_path)["trace"]) as golden:
        importance = importance_of(golden, found)
    before = {
        "table.weight": "head",
        "attention.in_proj_weight": "attention",
        "projection.weight": "projection",
    }
    # What `back` and attention's second weight are multiplied with is inside of a module or of attention.
    assert set(importance) == {*before, "back"}
    for name, path in before.items():
        rows = given_to(model, path, ids).flatten(0, -2).double()
        wanted = rows.square().mean(dim=0).float()
        assert torch.allclose(torch.from_numpy(importance[name]), wanted, rtol=1e-5), name


def test_a_matrix_that_has_its_inputs_first_has_blocks_of_its_outputs() -> None:
    found = choose(record(Attending().eval(), (torch.tensor([[1, 2, 3]]),), name="a", truth=False).graph)
    assert found.candidates["projection.weight"].shape == (256, 128)
    assert found.candidates["projection.weight"].inputs_first
    assert found.candidates["back"].shape == (128, 256) and found.candidates["back"].inputs_first
    assert not found.candidates["attention.in_proj_weight"].inputs_first


def test_awq_is_only_for_weights_of_which_the_inputs_are_known() -> None:
    found = choose(record(Attending().eval(), (torch.tensor([[1, 2, 3]]),), name="a", truth=False).graph)
    mix = mix_of("awq+q8_0", found)
    assert mix["attention.in_proj_weight"] == mix["projection.weight"] == mix["table.weight"] == "awq"
    assert mix["attention.out_proj.weight"] == "q8_0"
    with pytest.raises(QuantError, match=r"out_proj\.weight cannot be awq: what it is multiplied with is no"):
        mix_of("awq", found)


def test_a_matrix_that_is_read_in_two_directions_stays_as_it_is() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(32, 32, bias=False)

        def forward(self, xs: torch.Tensor) -> torch.Tensor:
            return self.fc(xs) @ self.fc.weight

    found = choose(record(Both().eval(), (torch.randn(2, 32),), name="both", truth=False).graph)
    assert found.floats == {"fc.weight": "parameter that is read in two directions"}
