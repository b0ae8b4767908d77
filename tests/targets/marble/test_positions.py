"""Positional encodings are the published formula or seeded parameters, added before the model is captured."""

import math

import pytest
import torch
from torch import Tensor, nn

from torchport import marble
from torchport.errors import ConvertError
from torchport.targets.marble.config import PositionalEncoding
from torchport.targets.marble.positions import sinusoidal


class Reader(nn.Module):
    def __init__(self, *, tied: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(20, 6, padding_idx=0)
        self.head = nn.Linear(6, 20, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.tokens(ids))


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.kinds = nn.Embedding(9, 4), nn.Embedding(2, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.words(ids) + self.kinds(torch.zeros_like(ids))


IDS = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 0, 0, 1]])


def by_hand(length: int, width: int) -> list[list[float]]:
    """The formula of "Attention Is All You Need", number by number."""
    rows = []
    for place in range(length):
        row = []
        for column in range(width):
            angle = place / math.pow(10000, (column - column % 2) / width)
            row.append(math.cos(angle) if column % 2 else math.sin(angle))
        rows.append(row)
    return rows


@pytest.mark.parametrize(("length", "width"), [(1, 1), (7, 2), (50, 16), (33, 7)])
def test_the_sinusoidal_encoding_is_the_formula(length: int, width: int) -> None:
    torch.testing.assert_close(
        sinusoidal(length, width),
        torch.tensor(by_hand(length, width), dtype=torch.float64),
        rtol=0,
        atol=1e-14,
    )


def test_a_model_with_a_sinusoidal_encoding_adds_the_formula_to_its_embedding() -> None:
    model = Reader().eval()
    changed = marble.with_positions(model, PositionalEncoding(kind="sinusoidal"), (IDS,))
    expected = model.head(model.tokens(IDS) + torch.tensor(by_hand(5, 6)))
    torch.testing.assert_close(changed(IDS), expected)
    assert changed.state_dict().keys() == model.state_dict().keys()
    assert not torch.equal(model(IDS), changed(IDS))


def test_a_learned_encoding_is_a_seeded_parameter_of_the_embedding() -> None:
    model = Reader().eval()
    encoding = PositionalEncoding(kind="learned", max_length=4000, seed=7)
    one, two = (marble.with_positions(model, encoding, (IDS,)) for _ in range(2))
    other = marble.with_positions(model, encoding.model_copy(update={"seed": 8}), (IDS,))
    table = one.state_dict()["tokens.positions"]
    assert table.shape == (4000, 6)
    assert torch.equal(table, two.state_dict()["tokens.positions"])
    assert not torch.equal(table, other.state_dict()["tokens.positions"])
    assert float(table.std()) == pytest.approx(0.02, rel=0.02)
    assert abs(float(table.mean())) < 1e-3
    assert "tokens.positions" in dict(one.named_parameters())


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_the_graph_computes_what_the_changed_model_computes(kind: str) -> None:
    model = Reader().eval()
    core = marble.convert_model(model, IDS, config={"positional_encoding": {"kind": kind}})
    changed = marble.with_positions(model, PositionalEncoding(kind=kind), (IDS,))  # type: ignore[arg-type]
    assert marble.validate(core, changed, IDS).passed
    assert not marble.validate(core, model, IDS).passed
    assert ("tokens.positions" in core.state_dict()) == (kind == "learned")


def test_a_tied_weight_stays_tied_and_the_model_as_it_was() -> None:
    model = Reader(tied=True).eval()
    before = model(IDS)
    changed = marble.with_positions(model, PositionalEncoding(kind="learned"), (IDS,))
    assert changed.head.weight is changed.tokens.weight  # type: ignore[union-attr]
    assert type(model.tokens) is nn.Embedding and torch.equal(model(IDS), before)


def test_one_of_several_embeddings_must_be_named() -> None:
    model = Two().eval()
    with pytest.raises(ConvertError) as raised:
        marble.with_positions(model, PositionalEncoding(kind="sinusoidal"), (IDS,))
    assert raised.value.code == "TP0405" and "words, kinds" in raised.value.message
    changed = marble.with_positions(model, PositionalEncoding(kind="sinusoidal", layer="words"), (IDS,))
    torch.testing.assert_close(changed(IDS), model(IDS) + torch.tensor(by_hand(5, 4)))


@pytest.mark.parametrize(
    ("model", "encoding", "message"),
    [
        (nn.Linear(5, 2), {"kind": "learned"}, "no nn.Embedding"),
        (Reader(), {"kind": "learned", "layer": "head"}, "is a Linear"),
        (Reader(), {"kind": "learned", "layer": "tokenz"}, "is not there"),
        (Reader(), {"kind": "sinusoidal", "max_length": 4}, "5 tokens"),
    ],
)
def test_an_encoding_that_does_not_fit_is_refused(
    model: nn.Module, encoding: dict[str, object], message: str
) -> None:
    with pytest.raises(ConvertError) as raised:
        marble.convert_model(model.eval(), IDS, config={"positional_encoding": encoding})
    assert raised.value.code == "TP0405" and message in raised.value.message
