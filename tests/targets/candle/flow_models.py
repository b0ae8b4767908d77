"""Models with control flow whose Rust is easily written wrong: its names, what is read, and what is evaluated when."""

import torch
from torch import nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops import map as map_over

from ...capture.control_flow_models import Branch, Counted, Each

Pair = tuple[torch.Tensor, torch.Tensor]


class Fibonacci(nn.Module):
    """Both values change at once, each from the other's old one, until their sum is large."""

    def forward(self, x: torch.Tensor) -> Pair:
        def small(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
            both = old + new
            return (both * both).sum() + both.sum() < 1000

        def step(old: torch.Tensor, new: torch.Tensor) -> Pair:
            return new.clone(), old + new

        return while_loop(small, step, (x.abs(), x.abs() + 1))


class Collatz(nn.Module):
    """Whole numbers: how many steps a number takes to 1, with a branch in every step."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def not_one(n: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
            return n != 1

        def step(n: torch.Tensor, steps: torch.Tensor) -> Pair:
            even = n % 2 == 0
            return torch.cond(even, lambda n: n // 2, lambda n: 3 * n + 1, (n,)), steps + 1

        start = (x.abs().sum() * 10).to(torch.int64) + 2
        return while_loop(not_one, step, (start, torch.zeros_like(start)))[1]


class Halves(nn.Module):
    """A branch with two results of which one is read; its operands are read again behind it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ys = x * 2

        def more(x: torch.Tensor, ys: torch.Tensor) -> Pair:
            ys = ys + 1
            return ys * x, ys.tanh()

        _, kept = torch.cond(x.mean() > 0, more, lambda x, ys: (ys.clone(), x - ys), (x, ys))
        return kept + ys + x


class Cell(nn.Module):
    """A recurrent cell over time, which keeps its last state, and a module of its parent's that only a body runs."""

    def __init__(self, width: int, inner: nn.Module) -> None:
        super().__init__()
        self.cell = nn.GRUCell(width, width)
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Pair:
        def step(state: torch.Tensor, now: torch.Tensor) -> Pair:
            state = self.cell(now, state)
            return state, self.inner(state)

        return scan(step, x.new_zeros(x.shape[0], x.shape[2]), x, dim=1)


class Nested(nn.Module):
    """A branch in a loop in a scan; all of them have weights."""

    def __init__(self) -> None:
        super().__init__()
        self.branch, self.dense = Branch(), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Pair:
        def step(total: torch.Tensor, rows: torch.Tensor) -> Pair:
            def again(count: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                return (count < 6) & (y.abs().sum() < 40)

            def body(count: torch.Tensor, y: torch.Tensor) -> Pair:
                return count + 1, self.branch(y) - y + total

            rows = self.dense(rows)
            count, y = while_loop(again, body, (torch.tensor(0), rows))
            return total + y.mean(), y * count + rows

        return scan(step, x.sum(), x, dim=0)


class LastState(nn.Module):
    """A scan of which only the carried value is read, and which counts in whole numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def step(count: torch.Tensor, row: torch.Tensor) -> Pair:
            return count + (row > 0).sum(), row * 2

        return scan(step, torch.tensor(0), x, dim=0)[0]


class Pairs(nn.Module):
    """A map over two tensors with two results, one of which is an operand as it is."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Pair:
        scale = x.sum()
        return map_over(lambda rows, scale: (rows[0] * rows[1] + scale, rows[1].clone()), (x, y), scale)


class Recurrence(nn.Module):
    """`y[t] = a[t] * y[t - 1] + b[t]` as a scan that may be done in any order."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        def combine(left: Pair, right: Pair) -> Pair:
            return left[0] * right[0], left[1] * right[0] + right[1]

        return associative_scan(combine, (a, b), dim=0, combine_mode="pointwise")[1]


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.new, self.old = nn.Linear(4, 8), nn.Linear(8, 8)

    def forward(self, now: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return (self.new(now) + self.old(state)).tanh()


class WrittenOut(nn.Module):
    """Recurrent cells by hand: a module in a loop, a loop that is stacked with what it starts with, a cell of torch."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.head, self.lstm = Step(), nn.Linear(8, 4), nn.LSTMCell(4, 4)
        self.weight = nn.Parameter(torch.rand(4, 4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        state = x.new_zeros(x.shape[0], 8)
        outputs = []
        for t in range(x.shape[1]):
            state = self.step(x[:, t], state)
            outputs.append(self.head(state))
        first, *others = x.unbind(1)
        states = [first]
        for now in others:
            states.append(torch.tanh(now @ self.weight + states[-1]))
        hidden = cell = x.new_zeros(x.shape[0], 4)
        for t in range(x.shape[1]):
            hidden, cell = self.lstm(x[:, t], (hidden, cell))
        return torch.stack(outputs, 1) + torch.stack(states, 1), state, hidden


class Everything(nn.Module):
    """Every kind of control flow in one model. The inputs are rows of 4, and sequences of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Linear(4, 4)
        self.written_out = WrittenOut()
        self.branch, self.counted, self.each, self.nested = Branch(), Counted(), Each(), Nested()
        self.fibonacci, self.collatz, self.halves = Fibonacci(), Collatz(), Halves()
        self.cell, self.last, self.pairs, self.recurrence = (
            Cell(4, self.shared),
            LastState(),
            Pairs(),
            Recurrence(),
        )

    def forward(
        self, x: torch.Tensor, sequences: torch.Tensor, fixed: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        outputs, state, hidden = self.written_out(fixed)
        states_written_out = outputs.sum() + state.sum() + hidden
        _, states = self.cell(sequences)
        products, rows = self.pairs(x, x.tanh())
        old, new = self.fibonacci(x)
        y = self.branch(x) + self.branch(-x) + self.halves(x) + self.halves(-x) + old + new + products + rows
        y = self.shared(self.recurrence(x.sigmoid(), y)) + self.each(x) + self.counted(x)[1]
        return y, states, states_written_out, *self.nested(sequences), self.collatz(x), self.last(x)
