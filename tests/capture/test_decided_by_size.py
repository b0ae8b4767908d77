"""A model that decides by a size: the capture says for which sizes it stands, and refuses others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import torchport
from torchport.capture.manifest import read_manifest
from torchport.capture.recorder import Capture, record, record_graph
from torchport.capture.torch_internals import guards_of
from torchport.errors import CaptureError

X = torch.linspace(-2, 2, 5 * 4).view(5, 4)


class Longer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 3:
            return x * 2
        return x * 3


class Odd(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] % 2:
            return x * 2
        return x * 3


class Other(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] != 7 else x


class Either(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.sum() + y.sum() if x.shape[0] > y.shape[0] else x.sum() - y.sum()


class Scaled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if 3 * x.shape[0] - 2 > 10 else x - 1


class Windowed(nn.Module):
    """torch has limits of its own for a convolution, and the model has none."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x.transpose(0, 1)[None]).reshape(-1, 2)


def captured(kind: type[nn.Module], *args: Tensor) -> Capture:
    return record(kind(), args or (X,), truth=False)


def test_the_least_length_is_that_from_which_on_the_model_decides_alike() -> None:
    (symbol,) = captured(Longer).graph.symbols
    assert (symbol.low, symbol.high) == (4, None)
    (symbol,) = captured(Longer, X[:3]).graph.symbols
    assert (symbol.low, symbol.high) == (1, 3)
    assert [one.low for one in captured(Scaled).graph.symbols] == [5]


@pytest.mark.parametrize(
    ("kind", "args", "said"),
    [
        (Longer, (X,), "batch > 3"),
        (Odd, (X,), "batch % 2 != 0"),
        (Other, (X,), "batch != 7"),
        (Either, (X, X[:2]), "batch > batch_2"),
    ],
)
def test_what_was_decided_is_said_with_the_line(
    kind: type[nn.Module], args: tuple[Tensor, ...], said: str
) -> None:
    (condition,) = captured(kind, *args).graph.conditions
    assert str(condition) == said
    assert condition.source is not None and condition.source.startswith(f"{__file__}:")
    line = Path(__file__).read_text().splitlines()[int(condition.source.rpartition(":")[2]) - 1]
    assert " if " in line


@pytest.mark.parametrize(
    ("kind", "args", "others"),
    [
        (Longer, (X,), (X[:3],)),
        (Odd, (X,), (X[:4],)),
        (Other, (X,), (X.repeat(2, 1)[:7],)),
        (Either, (X, X[:2]), (X[:2], X[:4])),
    ],
)
def test_inputs_for_which_the_model_decides_otherwise_are_refused(
    kind: type[nn.Module], args: tuple[Tensor, ...], others: tuple[Tensor, ...]
) -> None:
    graph = captured(kind, *args).graph
    with pytest.raises(CaptureError, match="TP0208"):
        record_graph(kind(), graph, {}, others, {})
    longer = tuple(torch.cat([one, one[:1].expand(4, -1)]) for one in args)
    assert record_graph(kind(), graph, {}, longer, {}).has_values


def test_an_axis_is_fixed_if_the_example_itself_decides_otherwise() -> None:
    """Of a batch of 1, torch.export sees one of 2, which is not odd."""
    graph = captured(Odd, X[:1]).graph
    assert graph.symbols == () and graph.root.inputs[0].meta.shape == (1, 4)


def test_conditions_are_in_the_manifest_and_in_the_notes(tmp_path: Path) -> None:
    port = torchport.port(Odd(), (X,), target="torch", out=tmp_path)
    graph, _ = read_manifest(port.files.manifest)
    assert [str(condition) for condition in graph.conditions] == ["batch % 2 != 0"]
    (note,) = (note for note in port.check().notes if "batch % 2 != 0" in note)
    assert f"{__file__}:" in note and "refuses others" in note
    with pytest.raises(CaptureError, match=r"TP0208.*where batch % 2 != 0, and here batch is 4"):
        port.check((X[:4],))


def test_limits_of_torch_for_shapes_are_no_decisions_of_the_model() -> None:
    capture = record(Windowed(), (X.repeat(2, 1)[:8],), dynamic="x:0", truth=False)
    assert capture.graph.conditions == ()


def test_inputs_without_free_sizes_have_no_guards() -> None:
    assert list(guards_of([X, 3, None])) == []


class Sliced(nn.Module):
    """Where the slice begins is at the front for few rows, counted from the back for more, and in between for many."""

    def forward(self, x: Tensor) -> Tensor:
        return x[x.shape[0] - 40 :] * 2


def test_one_of_several_relations_may_be_what_was_decided(tmp_path: Path) -> None:
    port = torchport.port(Sliced(), (X,), target="torch", out=tmp_path, dynamic="x:0")
    graph, _ = read_manifest(port.files.manifest)
    assert graph.conditions == port.graph.conditions
    refused = {
        length for length in range(2, 60) if not all(one.holds({"batch": length}) for one in graph.conditions)
    }
    for length in (2, 8, 25, 50):
        rows = torch.randn(length, 4)
        if length in refused:
            with pytest.raises(CaptureError, match="TP0208"):
                port.check((rows,))
        else:
            assert port.check((rows,)).passed
