"""Recurrent layers: the cell of each layer and direction, once for each step of time. The steps share their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torchport.targets.marble.composer import Composer, Operand, Unsupported, Value, Weight
from torchport.targets.marble.groups import Kind
from torchport.targets.marble.recipes.arithmetic import as_value
from torchport.targets.marble.recipes.registry import recipe

Cell = Callable[[Composer, Value, tuple[Value, ...], Sequence[Weight | None]], tuple[Value, ...]]
"""Takes the value of one step, the state before it and the weights, and gives the state after it, the output first."""


@dataclass(frozen=True)
class _Weights:
    """The weights of one layer in one direction."""

    w_ih: Weight
    w_hh: Weight
    b_ih: Weight | None = None
    b_hh: Weight | None = None
    w_hr: Weight | None = None

    def of_input(self, c: Composer, value: Value) -> Value:
        return c.dense(value, self.w_ih, self.b_ih)

    def of_state(self, c: Composer, state: Value) -> Value:
        return c.dense(state, self.w_hh, self.b_hh)


def _gates(c: Composer, value: Value, count: int) -> list[Value]:
    return c.operation(Kind.WIRING, "aten.chunk.default", [("self", value)], {"chunks": count, "dim": -1})


def _both(c: Composer, first: Value, second: Value) -> Value:
    return c.weighted((first, 1), (second, 1))


def _lstm_cell(c: Composer, value: Value, state: tuple[Value, ...], own: _Weights) -> tuple[Value, ...]:
    hidden, cell = state
    i, f, g, o = _gates(c, _both(c, own.of_input(c, value), own.of_state(c, hidden)), 4)
    i, f, o = (c.function("aten.sigmoid.default", gate) for gate in (i, f, o))
    g = c.function("aten.tanh.default", g)
    cell = _both(c, c.product(f, cell), c.product(i, g))
    hidden = c.product(o, c.function("aten.tanh.default", cell))
    return (hidden if own.w_hr is None else c.dense(hidden, own.w_hr)), cell


def _gru_cell(c: Composer, value: Value, state: tuple[Value, ...], own: _Weights) -> tuple[Value, ...]:
    (hidden,) = state
    r_x, z_x, n_x = _gates(c, own.of_input(c, value), 3)
    r_h, z_h, n_h = _gates(c, own.of_state(c, hidden), 3)
    r, z = (c.function("aten.sigmoid.default", _both(c, *two)) for two in ((r_x, r_h), (z_x, z_h)))
    n = c.function("aten.tanh.default", _both(c, n_x, c.product(r, n_h)))
    return (_both(c, n, c.product(z, c.weighted((hidden, 1), (n, -1)))),)


def _plain_cell(function: str) -> Any:
    def cell(c: Composer, value: Value, state: tuple[Value, ...], own: _Weights) -> tuple[Value, ...]:
        total = _both(c, own.of_input(c, value), own.of_state(c, state[0]))
        return (c.function(function, total),)

    return cell


@recipe("aten.lstm.input")
def lstm(
    c: Composer,
    input: Operand,
    hx: Sequence[Operand],
    params: Sequence[Operand],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> list[Value]:
    states = [as_value(c, one) for one in hx]
    each = len(params) // (num_layers * (2 if bidirectional else 1))
    layers = _split(params, each, has_biases)
    return _stacked(c, _lstm_cell, as_value(c, input), states, layers, bidirectional, batch_first)


def _with_one_state(cell: Any) -> Any:
    def made(
        c: Composer,
        input: Operand,
        hx: Operand,
        params: Sequence[Operand],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> list[Value]:
        layers = _split(params, 4 if has_biases else 2, has_biases)
        value, states = as_value(c, input), [as_value(c, hx)]
        return _stacked(c, cell, value, states, layers, bidirectional, batch_first)

    return made


recipe("aten.gru.input")(_with_one_state(_gru_cell))
recipe("aten.rnn_tanh.input")(_with_one_state(_plain_cell("aten.tanh.default")))
recipe("aten.rnn_relu.input")(_with_one_state(_plain_cell("aten.relu.default")))


def _split(params: Sequence[Operand], each: int, has_biases: bool) -> list[_Weights]:
    found = []
    for start in range(0, len(params), each):
        some = params[start : start + each]
        if not all(isinstance(one, Weight) for one in some):
            raise Unsupported("its weights are computed by the model")
        names = ["w_ih", "w_hh", *(["b_ih", "b_hh"] if has_biases else []), "w_hr"]
        found.append(_Weights(**dict(zip(names, some, strict=False))))  # type: ignore[arg-type]
    return found


def _stacked(
    c: Composer,
    cell: Any,
    value: Value,
    states: list[Value],
    layers: list[_Weights],
    bidirectional: bool,
    batch_first: bool,
) -> list[Value]:
    time = 1 if batch_first and value.rank == 3 else 0
    directions = 2 if bidirectional else 1
    ends: list[tuple[Value, ...]] = []
    for layer in range(len(layers) // directions):
        sides = []
        for side in range(directions):
            index = layer * directions + side
            start = tuple(c.wire("aten.select.int", state, dim=0, index=index) for state in states)
            outputs, end = _through_time(c, cell, value, time, start, layers[index], is_back=side == 1)
            sides.append(outputs)
            ends.append(end)
        value = sides[0] if directions == 1 else _joined(c, "aten.cat.default", sides, -1)
    last = [_joined(c, "aten.stack.default", [end[nth] for end in ends], 0) for nth in range(len(states))]
    return [value, *last]


def _through_time(
    c: Composer,
    cell: Any,
    value: Value,
    time: int,
    state: tuple[Value, ...],
    own: _Weights,
    *,
    is_back: bool,
) -> tuple[Value, tuple[Value, ...]]:
    steps = range(value.shape[time])
    outputs: dict[int, Value] = {}
    for step in reversed(steps) if is_back else steps:
        state = cell(c, c.wire("aten.select.int", value, dim=time, index=step), state, own)
        outputs[step] = state[0]
    return _joined(c, "aten.stack.default", [outputs[step] for step in steps], time), state


def _joined(c: Composer, operation: str, values: list[Value], dim: int) -> Value:
    return c.operation(Kind.WIRING, operation, [("tensors", values)], {"dim": dim})[0]
