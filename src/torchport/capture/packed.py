"""Packed sequences, while a model is captured: a batch with the length of each of its rows.

torch packs the rows of a batch without their padding, and torch.export cannot follow that: how many elements there are
depends on the lengths. So, within, a `PackedSequence` holds the padded batch, steps first, and the lengths in place of
the batch sizes. Recurrent layers and unpacking are operations of our own, which compute what torch computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.nn.utils import rnn

from torchport.capture.torch_internals import decomposition_tables

RUN = "torchport.packed_rnn.default"
UNPACK = "torchport.unpacked.default"

_library = torch.library.Library("torchport", "FRAGMENT")  # type: ignore[no-untyped-call]
_library.define(  # type: ignore[no-untyped-call]
    "packed_rnn(Tensor input, Tensor lengths, Tensor[] hx, Tensor[] params, str mode, bool has_biases, "
    "int num_layers, bool bidirectional) -> Tensor[]"
)
_library.define("unpacked(Tensor padded, Tensor lengths, float value) -> Tensor")  # type: ignore[no-untyped-call]
_VF = torch._VF  # type: ignore[attr-defined]
_KERNELS: dict[str, Callable[..., Any]] = {
    "LSTM": _VF.lstm,
    "GRU": _VF.gru,
    "RNN_TANH": _VF.rnn_tanh,
    "RNN_RELU": _VF.rnn_relu,
}
_pack, _unpack = _VF._pack_padded_sequence, _VF._pad_packed_sequence


def _run(
    input: torch.Tensor,
    lengths: torch.Tensor,
    hx: list[torch.Tensor],
    params: list[torch.Tensor],
    mode: str,
    has_biases: bool,
    num_layers: int,
    bidirectional: bool,
) -> list[torch.Tensor]:
    """Lengths are sorted, the longest first. Behind the end of a row there are zeros."""
    data, batch_sizes = _pack(input, lengths.reshape(-1).cpu(), False)
    states = hx if mode == "LSTM" else hx[0]
    options = (has_biases, num_layers, 0.0, False, bidirectional)
    output, *last = _KERNELS[mode](data, batch_sizes, states, params, *options)
    padded, _ = _unpack(output, batch_sizes, False, 0.0, input.shape[0])
    return [padded, *last]


def _run_shapes(
    input: torch.Tensor,
    lengths: torch.Tensor,
    hx: list[torch.Tensor],
    params: list[torch.Tensor],
    mode: str,
    has_biases: bool,
    num_layers: int,
    bidirectional: bool,
) -> list[torch.Tensor]:
    width = hx[0].shape[-1] * (2 if bidirectional else 1)
    output = input.new_empty((input.shape[0], input.shape[1], width))
    return [output, *(torch.empty_like(state) for state in hx)]


def _unpacked(padded: torch.Tensor, lengths: torch.Tensor, value: float) -> torch.Tensor:
    """As many steps as the longest row has, with `value` behind the end of each row."""
    steps = torch.arange(padded.shape[0], device=lengths.device)[:, None]
    is_beyond = (steps >= lengths.reshape(1, -1)).reshape(*padded.shape[:2], *[1] * (padded.ndim - 2))
    return padded.masked_fill(is_beyond, value)[: int(lengths.max())]


def _unpacked_shape(padded: torch.Tensor, lengths: torch.Tensor, value: float) -> torch.Tensor:
    steps = torch.library.get_ctx().new_dynamic_size()
    return padded.new_empty((steps, *padded.shape[1:]))


torch.library.impl(_library, "packed_rnn", "CompositeExplicitAutograd")(_run)
torch.library.impl(_library, "unpacked", "CompositeExplicitAutograd")(_unpacked)
torch.library.register_fake("torchport::packed_rnn", _run_shapes, lib=_library)
torch.library.register_fake("torchport::unpacked", _unpacked_shape, lib=_library)


def _shapes_of(with_cell: bool) -> Callable[..., tuple[torch.Tensor, ...]]:
    """What a recurrent operation gives, but for the values: torch would go through its steps, and fix their number."""

    def shapes(
        input: torch.Tensor,
        hx: Any,
        params: Any,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[torch.Tensor, ...]:
        states = hx if with_cell else [hx]
        width = states[0].shape[-1] * (2 if bidirectional else 1)
        output = input.new_empty((*input.shape[:-1], width))
        return (output, *(torch.empty_like(state) for state in states))

    return shapes


_WHOLE = {
    torch.ops.aten.lstm.input: _shapes_of(True),
    torch.ops.aten.gru.input: _shapes_of(False),
    torch.ops.aten.rnn_tanh.input: _shapes_of(False),
    torch.ops.aten.rnn_relu.input: _shapes_of(False),
}


@contextmanager
def lengths_left_free() -> Iterator[None]:
    """Within, recurrent operations on tensors without values only say what shapes they give."""
    before = {op: dict(op.py_kernels) for op in _WHOLE}
    rules = [(table, op, table[op]) for table in decomposition_tables() for op in _WHOLE if op in table]
    try:
        for table, op, _ in rules:
            table[op] = _WHOLE[op]
        for op, shapes in _WHOLE.items():
            op.py_kernels.update(dict.fromkeys(op.py_kernels, shapes))
            op._dispatch_cache.clear()
        yield
    finally:
        for table, op, rule in rules:
            table[op] = rule
        for op, kernels in before.items():
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()


@contextmanager
def packed_as_padded() -> Iterator[None]:
    """Within, sequences are packed as a capture needs them, and recurrent layers leave their lengths free."""
    with ExitStack() as stack:
        stack.enter_context(lengths_left_free())
        stack.enter_context(patch.object(_VF, "_pack_padded_sequence", _as_padded, create=True))
        stack.enter_context(patch.object(_VF, "_pad_packed_sequence", _from_padded, create=True))
        for layer in (nn.LSTM, nn.GRU, nn.RNN):
            stack.enter_context(patch.object(layer, "forward", _forward_of(layer.forward)))
        yield


def _as_padded(
    input: torch.Tensor, lengths: torch.Tensor, batch_first: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    # One row of lengths: pad_packed_sequence takes as many steps as there are rows, if it is not told how many.
    return input.transpose(0, 1) if batch_first else input, lengths.unsqueeze(0)


def _from_padded(
    data: torch.Tensor, lengths: torch.Tensor, batch_first: bool, value: float, steps: int
) -> tuple[torch.Tensor, torch.Tensor]:
    padded = torch.ops.torchport.unpacked(data, lengths, float(value))
    if steps != 1:  # a total length was asked for
        beyond = torch.full((steps, *padded.shape[1:]), value, dtype=padded.dtype, device=padded.device)
        padded = torch.cat([padded, beyond])[:steps]
    return padded.transpose(0, 1) if batch_first else padded, lengths.squeeze(0)


def _forward_of(forward: Callable[..., Any]) -> Callable[..., Any]:
    def packed(self: nn.RNNBase, input: Any, hx: Any = None) -> Any:
        if not isinstance(input, rnn.PackedSequence):
            return forward(self, input, hx)
        if self.dropout and self.training:
            raise NotImplementedError("dropout between the layers of a packed sequence draws random numbers")
        data, lengths, order, back = input
        states = _first_states(self, data) if hx is None else self.permute_hidden(hx, order)
        mode, biases = self.mode, self.bias
        output, *last = torch.ops.torchport.packed_rnn(
            data,
            lengths,
            _listed(states),
            self._flat_weights,
            mode,
            biases,
            self.num_layers,
            self.bidirectional,
        )
        hidden: Any = tuple(last) if mode == "LSTM" else last[0]
        return rnn.PackedSequence(output, lengths, order, back), self.permute_hidden(hidden, back)

    return packed


def _listed(states: Any) -> list[torch.Tensor]:
    return [states] if isinstance(states, torch.Tensor) else list(states)


def _first_states(layer: nn.RNNBase, data: torch.Tensor) -> Sequence[torch.Tensor]:
    rows = layer.num_layers * (2 if layer.bidirectional else 1)
    sizes = [layer.proj_size or layer.hidden_size]
    sizes += [layer.hidden_size] if layer.mode == "LSTM" else []
    return [data.new_zeros((rows, data.shape[1], size)) for size in sizes]
