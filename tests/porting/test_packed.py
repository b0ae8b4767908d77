"""Packed sequences: batches of rows of different lengths, proven at lengths that were not recorded."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import torchport
from torchport.capture.packed import packed_as_padded
from torchport.capture.recorder import record
from torchport.errors import CaptureError
from torchport.porting.port import Port


class Packed(nn.Module):
    """A recurrent layer over a packed batch, and what is made of it."""

    def __init__(
        self, layer: nn.RNNBase, *, total: int | None = None, is_sorted: bool = False, value: float = 0.0
    ):
        super().__init__()
        self.layer, self.total, self.is_sorted, self.value = layer, total, is_sorted, value
        self.embed = nn.Linear(4, 5)

    def forward(self, x: Tensor, lengths: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        first = self.layer.batch_first
        x = x if first else x.transpose(0, 1)
        packed = pack_padded_sequence(x, lengths, first, enforce_sorted=self.is_sorted)
        packed = PackedSequence(self.embed(packed.data).tanh(), *packed[1:])
        given = None if not states else states[0] if len(states) == 1 else states
        out, last = self.layer(packed, given)
        padded, found = pad_packed_sequence(out, first, self.value, self.total)
        return (padded, found, *(last if isinstance(last, tuple) else (last,)))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = Packed(nn.LSTM(5, 6, 2, batch_first=True, bidirectional=True))
        self.projected = Packed(nn.LSTM(5, 6, proj_size=3, batch_first=True), value=-1.0)
        self.gru = Packed(nn.GRU(5, 6, batch_first=True, bidirectional=True), total=11)
        self.rnn = Packed(nn.RNN(5, 6, nonlinearity="relu", bias=False))
        self.tanh = Packed(nn.RNN(5, 6, batch_first=True), is_sorted=True)
        self.whole = nn.Sequential(nn.LSTM(4, 3, 2, proj_size=2, bidirectional=True, batch_first=True))

    def forward(self, x: Tensor, lengths: Tensor, state: Tensor) -> tuple[Tensor, ...]:
        results = [layer(x, lengths) for layer in (self.lstm, self.projected, self.gru)]
        results.append(self.rnn(x, lengths, state))
        ordered = lengths.sort(descending=True).values
        results.append(self.tanh(x, ordered))
        whole, _ = self.whole(x)
        return whole, *(tensor for result in results for tensor in result)


def inputs(*lengths: int, steps: int = 8) -> tuple[Tensor, ...]:
    batch = len(lengths)
    return torch.randn(batch, steps, 4), torch.tensor(lengths), torch.randn(1, batch, 6)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, cargo: str) -> Port:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("packed")
    return torchport.port(Model().eval(), inputs(5, 2, 7), out=folder, dynamic="x:0,x:1,lengths:0,state:1")


def test_every_kind_of_layer_over_rows_of_different_lengths_is_proven(port: Port) -> None:
    assert port.artifact.todos == ()
    report = port.check()
    report.raise_for_divergence()
    assert {"lstm.layer", "projected.layer", "gru.layer", "rnn.layer", "tanh.layer"} <= {
        layer.name for layer in report.layers if layer.own is not None
    }


@pytest.mark.parametrize(("lengths", "steps"), [((8, 8), 8), ((1, 3, 2, 1, 3), 5), ((4, 9, 11, 1), 11)])
def test_other_lengths_are_proven_by_the_same_port(port: Port, lengths: tuple[int, ...], steps: int) -> None:
    port.check(inputs(*lengths, steps=steps)).raise_for_divergence()


def test_other_padding_is_found(port: Port) -> None:
    source = port.artifact.source  # type: ignore[attr-defined]
    text = source.read_text()
    assert text.count("-1.0)?") == 1
    source.write_text(text.replace("-1.0)?", "-2.0)?"))
    try:
        report = port.check(explain=False)
    finally:
        source.write_text(text)
    assert report.first_divergence is not None and report.first_divergence.layer == "projected"


def test_torch_packs_as_ever_behind_a_capture() -> None:
    x, lengths, _ = inputs(5, 2, 7)
    layer = Packed(nn.LSTM(5, 6, batch_first=True))
    before = layer(x, lengths)
    with packed_as_padded():
        pass
    record(layer.eval(), (x, lengths))
    for old, new in zip(before, layer(x, lengths), strict=True):
        assert torch.equal(old, new)


def test_elements_that_are_counted_without_their_padding_are_refused() -> None:
    class Mean(nn.Module):
        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            return pack_padded_sequence(x, lengths, True, enforce_sorted=False).data.mean()

    x, lengths, _ = inputs(5, 2, 7)
    with pytest.raises(CaptureError, match="TP0203"):
        record(Mean(), (x, lengths))
