"""Rows for recurrent layers with every option: stacked, both directions, projected, with and without states."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .table import Table, randn

table = Table("recurrent")
layer = table.layer

_RECURRENT: dict[str, dict] = {
    "plain": {},
    "stacked": {"num_layers": 3},
    "bidirectional": {"bidirectional": True, "num_layers": 2},
    "batch_first": {"batch_first": True},
    "no_bias": {"bias": False, "num_layers": 2},
}
for name, kind in {"lstm": nn.LSTM, "gru": nn.GRU}.items():
    for option, options in _RECURRENT.items():
        layer(f"{name}_{option}", lambda k=kind, o=options: k(5, 4, **o), randn(6, 3, 5))
layer("lstm_projected", lambda: nn.LSTM(5, 6, proj_size=3, num_layers=2), randn(6, 3, 5))
layer("lstm_projected_bidirectional", lambda: nn.LSTM(5, 6, proj_size=3, bidirectional=True), randn(6, 3, 5))


class WithState(nn.Module):
    """A recurrent layer that starts from given states."""

    def __init__(self, recurrent: nn.Module):
        super().__init__()
        self.recurrent = recurrent

    def forward(self, x: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        out, last = self.recurrent(x, states if len(states) == 2 else states[0])
        return (out, *(last if isinstance(last, tuple) else (last,)))


class LastState(nn.Module):
    """Reads only the last hidden state, as classifiers do."""

    def __init__(self, recurrent: nn.Module):
        super().__init__()
        self.recurrent = recurrent
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        _, last = self.recurrent(x)
        return self.head((last[0] if isinstance(last, tuple) else last)[-1])


layer(
    "lstm_initial_state", lambda: WithState(nn.LSTM(5, 4, 2)), randn(6, 3, 5), randn(2, 3, 4), randn(2, 3, 4)
)
layer("gru_initial_state", lambda: WithState(nn.GRU(5, 4, 2)), randn(6, 3, 5), randn(2, 3, 4))
layer("lstm_last_state", lambda: LastState(nn.LSTM(5, 4)), randn(6, 3, 5))
layer("gru_last_state", lambda: LastState(nn.GRU(5, 4)), randn(6, 3, 5))
layer("lstm_cell", lambda: nn.LSTMCell(5, 4), randn(3, 5))
layer("gru_cell", lambda: nn.GRUCell(5, 4), randn(3, 5))
layer("rnn_tanh", lambda: nn.RNN(5, 4, num_layers=2), randn(6, 3, 5))
layer(
    "rnn_relu",
    lambda: nn.RNN(5, 4, nonlinearity="relu", bidirectional=True, batch_first=True),
    randn(6, 3, 5),
)

_FORMS = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "rnn_tanh": nn.RNN,
    "rnn_relu": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
}
for name, kind in _FORMS.items():
    layer(f"{name}_unbatched", lambda k=kind: k(5, 4, num_layers=2), randn(6, 5))
    layer(
        f"{name}_float64",
        lambda k=kind: k(5, 4, bidirectional=True).double(),
        randn(6, 3, 5, dtype=torch.float64),
    )
    layer(f"{name}_bfloat16", lambda k=kind: k(5, 4).bfloat16(), randn(6, 3, 5, dtype=torch.bfloat16))
layer("lstm_projected_unbatched", lambda: nn.LSTM(5, 6, proj_size=3, num_layers=2), randn(6, 5))
layer(
    "lstm_projected_float64", lambda: nn.LSTM(5, 6, proj_size=3).double(), randn(6, 3, 5, dtype=torch.float64)
)
for option, options in _RECURRENT.items():
    layer(f"rnn_{option}", lambda o=options: nn.RNN(5, 4, **o), randn(6, 3, 5))
layer("lstm_float16", lambda: nn.LSTM(5, 4).half(), randn(6, 3, 5, dtype=torch.float16))
