"""Recurrent layers written as loops over their steps, with the gates computed together or one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .rewriting import operation

Weights = list[Tensor]
State = tuple[Tensor, ...]
Cell = Callable[[Tensor, State, Weights], State]
"""One step: the input, the state and the weights (input, hidden, their biases) give the next state."""


def layers(
    cell: Cell, x: Tensor, states: State, weights: Weights, count: int, directions: int
) -> tuple[Tensor, ...]:
    """All layers over a sequence, which is the first axis; gives what torch gives."""
    lasts: list[State] = []
    each = len(weights) // (count * directions)
    for layer in range(count):
        outputs = []
        for way in range(directions):
            index = layer * directions + way
            own = weights[index * each : (index + 1) * each]
            output, last = _along(cell, x, tuple(state[index] for state in states), own, backwards=way == 1)
            outputs.append(output)
            lasts.append(last)
        x = torch.cat(outputs, -1)
    return (x, *(torch.stack(parts) for parts in zip(*lasts)))


def _along(cell: Cell, x: Tensor, state: State, weights: Weights, *, backwards: bool) -> tuple[Tensor, State]:
    outputs = []
    for step in reversed(x.unbind(0)) if backwards else x.unbind(0):
        state = cell(step, state, weights)
        outputs.append(state[0])
    return torch.stack(list(reversed(outputs)) if backwards else outputs), state


def recurrent(kind: str, name: str) -> Callable[[Cell], Cell]:
    """Registers a cell for a recurrent operation of torch."""

    def decorate(cell: Cell) -> Cell:
        @operation(kind, name)
        def replacement(
            x: Tensor,
            hidden: Any,
            weights: Weights,
            has_biases: bool,
            num_layers: int,
            dropout: float,
            training: bool,
            bidirectional: bool,
            batch_first: Any = None,
        ) -> tuple[Tensor, ...] | None:
            if not isinstance(batch_first, bool) or not has_biases or (training and dropout):
                return None
            states = (hidden,) if isinstance(hidden, Tensor) else tuple(hidden)
            steps = x.transpose(0, 1) if batch_first else x
            y, *last = layers(cell, steps, states, weights, num_layers, 1 + bidirectional)
            return (y.transpose(0, 1) if batch_first else y, *last)

        return cell

    return decorate


@recurrent("LSTM: by hand", "lstm")
def lstm(x: Tensor, state: State, weights: Weights) -> State:
    hidden, memory = state
    gates = F.linear(x, weights[0], weights[2]) + F.linear(hidden, weights[1], weights[3])
    take, forget, new, give = gates.chunk(4, -1)
    memory = torch.sigmoid(forget) * memory + torch.sigmoid(take) * torch.tanh(new)
    return torch.sigmoid(give) * torch.tanh(memory), memory


@recurrent("LSTM: one product for input and state", "lstm")
def lstm_together(x: Tensor, state: State, weights: Weights) -> State:
    hidden, memory = state
    weight, bias = torch.cat(weights[:2], -1), weights[2] + weights[3]
    take, forget, new, give = F.linear(torch.cat([x, hidden], -1), weight, bias).chunk(4, -1)
    memory = forget.sigmoid() * memory + take.sigmoid() * new.tanh()
    return give.sigmoid() * memory.tanh(), memory


@recurrent("LSTM: by cells", "lstm")
def lstm_cell(x: Tensor, state: State, weights: Weights) -> State:
    return torch.lstm_cell(x, state, *weights)


@recurrent("GRU: by hand", "gru")
def gru(x: Tensor, state: State, weights: Weights) -> State:
    (hidden,) = state
    of_input, of_hidden = F.linear(x, weights[0], weights[2]), F.linear(hidden, weights[1], weights[3])
    reset, update = (
        torch.sigmoid(a + b) for a, b in zip(of_input.chunk(3, -1)[:2], of_hidden.chunk(3, -1)[:2])
    )
    new = torch.tanh(of_input.chunk(3, -1)[2] + reset * of_hidden.chunk(3, -1)[2])
    return ((1 - update) * new + update * hidden,)


@recurrent("GRU: each gate alone", "gru")
def gru_by_gates(x: Tensor, state: State, weights: Weights) -> State:
    (hidden,) = state
    gates = list(zip(*(weight.chunk(3) for weight in weights)))
    reset, update = (
        torch.sigmoid(F.linear(x, wi, bi) + F.linear(hidden, wh, bh)) for wi, wh, bi, bh in gates[:2]
    )
    wi, wh, bi, bh = gates[2]
    new = torch.tanh(F.linear(x, wi, bi) + reset * F.linear(hidden, wh, bh))
    return (new + update * (hidden - new),)


@recurrent("GRU: by cells", "gru")
def gru_cell(x: Tensor, state: State, weights: Weights) -> State:
    return (torch.gru_cell(x, state[0], *weights),)
