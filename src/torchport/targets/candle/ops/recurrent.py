"""Recurrent operations whose module is no layer of the runtime: other dtypes, no batch, weights from elsewhere."""

from __future__ import annotations

from torchport.capture import graph as g
from torchport.capture import packed
from torchport.targets.candle.arguments import Args
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, Piece, call, code, joined, slice_of
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import number
from torchport.targets.candle.registry import Several, op


def _called(e: Emitter, a: Args, name: str, states: list[g.Ref], *more: Piece) -> Several:
    is_training = a["train"]
    if a["dropout"] and is_training:
        raise Unsupported("what its dropout drops is random")
    params = slice_of([e.ref(param) for param in a["params"]])
    given = [e.ref(state) for state in states]
    return Several(
        call(f"nn::{name}", e.ref(a["input"]), *given, params, _config(e, a, a["batch_first"]), *more)
    )


def _config(e: Emitter, a: Args, batch_first: bool) -> Code:
    items = [code("num_layers: {}", a["num_layers"])]
    flags = {"bidirectional": a["bidirectional"], "batch_first": batch_first}
    items += [code("{}: true", name) for name, is_set in flags.items() if is_set]
    items += [] if a["has_biases"] else [code("bias: false")]
    of_each = len(a["params"]) // (a["num_layers"] * (2 if a["bidirectional"] else 1))
    if of_each % 2:  # each direction of a layer has a projection beside its pairs
        items.append(code("proj_size: {}", str(e.meta(a["params"][of_each - 1]).shape[0])))
    return code("nn::RnnConfig {{ {}, ..Default::default() }}", joined(", ", items))


_PACKED = {
    "LSTM": ("lstm_packed", ()),
    "GRU": ("gru_packed", ()),
    "RNN_TANH": ("rnn_packed", ("nn::Nonlinearity::Tanh",)),
    "RNN_RELU": ("rnn_packed", ("nn::Nonlinearity::Relu",)),
}


@op(packed.RUN)
def packed_rnn(e: Emitter, a: Args) -> Several:
    name, more = _PACKED[a["mode"]]
    params = slice_of([e.ref(param) for param in a["params"]])
    given = [e.ref(a["input"]), e.ref(a["lengths"]), *(e.ref(state) for state in a["hx"])]
    return Several(call(f"nn::{name}", *given, params, _config(e, a, batch_first=False), *more))


@op(packed.UNPACK)
def unpacked(e: Emitter, a: Args) -> Code:
    return call("ops::unpacked", e.ref(a["padded"]), e.ref(a["lengths"]), number(e, a["value"], "fill"))


@op("aten.lstm.input")
def lstm(e: Emitter, a: Args) -> Several:
    return _called(e, a, "lstm_of", a["hx"])


@op("aten.gru.input")
def gru(e: Emitter, a: Args) -> Several:
    return _called(e, a, "gru_of", [a["hx"]])


@op("aten.rnn_tanh.input", "aten.rnn_relu.input")
def rnn(e: Emitter, a: Args) -> Several:
    nonlinearity = {"rnn_tanh": "Tanh", "rnn_relu": "Relu"}[a.node.op.split(".")[1]]
    return _called(e, a, "rnn_of", [a["hx"]], f"nn::Nonlinearity::{nonlinearity}")
