"""A model becomes a graph by torch.export, torch.fx or the chain of its layers, and never without some of its code."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from torchport.errors import ConvertError
from torchport.marble import convert_model

X = torch.rand(2, 3, generator=torch.Generator().manual_seed(0))


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 2)


class OnlyFx(Base):
    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, Tensor) and not bool(torch.isfinite(x).all()):
            raise ValueError
        y: Tensor = self.b(torch.relu(self.a(x))) + 1
        return y


class Logged(Base):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        if h.max().item() > 1e6:
            raise_nothing = None
            del raise_nothing
        y: Tensor = self.b(h)
        return y


class InPlace(Base):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        if h.max().item() > 1e6:
            h = h + 0
        functional.relu_(h)
        y: Tensor = self.b(h)
        return y


class Branch(Base):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.b(self.a(x)) if x.sum() > 0 else self.b(x)
        return y


@pytest.mark.parametrize("kind", [OnlyFx, Logged])
def test_a_model_that_export_cannot_follow_is_captured_otherwise(kind: type[Base]) -> None:
    model = kind().eval()
    core = convert_model(model, X)
    for x in (X, -X, X * 3):
        torch.testing.assert_close(core.run(x)[0], model(x).detach())
    assert "torch.export could not follow" in core.notes[0]


def test_a_graph_module_is_no_empty_graph() -> None:
    model = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 3), nn.ReLU()).eval())
    torch.testing.assert_close(convert_model(model, X).run(-X)[0], model(-X).detach())


@pytest.mark.parametrize("kind", [InPlace, Branch])
def test_code_between_layers_is_never_left_out(kind: type[Base]) -> None:
    with pytest.raises(ConvertError) as caught:
        convert_model(kind().eval(), X)
    assert caught.value.code == "TP0404"
    assert "test_captures.py" in (caught.value.where or "") and caught.value.fix


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.e, self.a, self.b = nn.Embedding(9, 3), nn.Linear(3, 3), nn.Linear(3, 2)


class LongWords(Words):
    def forward(self, x: Tensor) -> Tensor:
        h = self.e(x)
        y: Tensor = self.b(self.a(h)) if bool((x > 3).all()) else self.b(h)
        return y


class FirstWord(Words):
    def forward(self, x: Tensor) -> Tensor:
        h = self.e(x)
        y: Tensor = self.b(h) if int(x.flatten()[0]) == 8 else self.b(self.a(h))
        return y


class LoggedWords(Words):
    def forward(self, x: Tensor) -> Tensor:
        h = self.e(x)
        if h.max().item() > 1e6:
            raise_nothing = None
            del raise_nothing
        y: Tensor = self.b(h)
        return y


class Float(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.float()


class AnyFlag(Words):
    def __init__(self) -> None:
        super().__init__()
        self.f = Float()

    def forward(self, x: Tensor) -> Tensor:
        h = self.f(x)
        y: Tensor = self.b(self.a(h)) if x.any() else self.b(h)
        return y


@pytest.mark.parametrize(
    ("kind", "x"),
    [
        (LongWords, torch.tensor([[4, 8, 5]])),
        (LongWords, torch.tensor([4, 8, 5], dtype=torch.int32)),
        (FirstWord, torch.tensor([[4, 8, 5]])),
        (FirstWord, torch.tensor([8])),
        (AnyFlag, torch.tensor([[True, False, True]])),
        (AnyFlag, torch.tensor([False, False, False])),
    ],
)
def test_branches_on_integers_and_flags_are_never_left_out(kind: type[Words], x: Tensor) -> None:
    with pytest.raises(ConvertError, match="code between the layers does more than hand values on"):
        convert_model(kind().eval(), x)


def test_a_chain_of_layers_takes_integers() -> None:
    model = LoggedWords().eval()
    core = convert_model(model, torch.tensor([[4, 8, 5]]))
    assert "module tree" in core.notes[0]
    for x in (torch.tensor([[4, 8, 5]]), torch.tensor([[0, 1, 2]])):
        torch.testing.assert_close(core.run(x)[0], model(x).detach())
    with pytest.raises(ConvertError, match="no integer but 0"):
        convert_model(model, torch.tensor([[0, 0, 0]]))


def test_a_model_that_gives_more_while_it_is_exported_is_captured_as_it_runs() -> None:
    class Shy(Base):
        def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
            y: Tensor = self.b(self.a(x))
            return (y, y + 1) if torch.compiler.is_exporting() else y

    model = Shy().eval()
    core = convert_model(model, X)
    (found,) = core.run(X)
    torch.testing.assert_close(found, model(X).detach())
    assert "torch.fx" in core.notes[0]


def test_a_written_buffer_is_noted() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval()
    assert convert_model(model, X).notes == []

    class Writes(Base):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.a(x) + self.n
            self.n.copy_(y.mean(0))
            return y

    assert "writes to n" in convert_model(Writes().eval(), X).notes[0]
