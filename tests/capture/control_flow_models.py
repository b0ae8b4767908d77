"""Models with control flow: each kind alone, and one inside the other."""

from collections.abc import Callable

import torch
from torch import nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops import map as map_over

Pair = tuple[torch.Tensor, torch.Tensor]


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense(x).tanh()


class Branch(nn.Module):
    """One branch is a module, the other has a weight of its own and a tensor that it makes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.scale = nn.Parameter(torch.rand(4) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def otherwise(x: torch.Tensor) -> torch.Tensor:
            return x * self.scale + torch.tensor([1.0, 2.0, 3.0, 4.0])

        return torch.cond(x.sum() > 0, self.inner, otherwise, (x,))


class Counted(nn.Module):
    """A loop with a counter, which calls a module."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> Pair:
        def again(count: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return count < 3

        def body(count: torch.Tensor, y: torch.Tensor) -> Pair:
            return count + 1, self.inner(y) + y

        return while_loop(again, body, (torch.tensor(0), x))


class Flagged(nn.Module):
    """A loop that carries a flag and whole numbers, and may not run at all."""

    def forward(self, x: torch.Tensor, start: torch.Tensor) -> tuple[torch.Tensor, ...]:
        def again(going: torch.Tensor, steps: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return going.clone()

        def body(going: torch.Tensor, steps: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            halved = y / 2
            return halved.abs().max() > 0.1, steps + (halved > 0).sum(), halved

        return while_loop(again, body, (start, torch.tensor(0), x))


class Running(nn.Module):
    """A scan with a carry and outputs of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> Pair:
        def step(carry: torch.Tensor, one: torch.Tensor) -> Pair:
            new = self.inner(carry + one)
            return new, new * 2 + one

        return scan(step, torch.zeros_like(x[0]), x, dim=0)


class Each(nn.Module):
    """A map over the first axis, which closes over a value of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return map_over(lambda one, first: self.inner(one) - first, x, x[0].clone())


class Product(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return associative_scan(lambda a, b: a * b, x, dim=0, combine_mode="pointwise")


class Nested(nn.Module):
    """A branch inside a loop inside a map."""

    def __init__(self) -> None:
        super().__init__()
        self.branch = Branch()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def one(row: torch.Tensor) -> torch.Tensor:
            return while_loop(
                lambda count, y: count < 4,
                lambda count, y: (count + 1, self.branch(y) - 1),
                (torch.tensor(0), row),
            )[1]

        return map_over(one, x)


class Converging(nn.Module):
    """Square roots by Newton's steps until nothing changes, and how many steps that took, as a float."""

    def forward(self, x: torch.Tensor) -> Pair:
        def again(steps: torch.Tensor, root: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
            return change > 0

        def body(steps: torch.Tensor, root: torch.Tensor, change: torch.Tensor) -> tuple[torch.Tensor, ...]:
            new = (root + x / root) / 2
            return steps + 1, new, (new - root).abs().max() * (steps < 40)

        start = x.new_zeros(()), torch.ones_like(x), x.new_ones(())
        steps, root, _ = while_loop(again, body, start)
        return steps, root


class Net(nn.Module):
    """Layers before and after a model with control flow, whose last output is used."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.before, self.inner, self.head = nn.Linear(4, 4), inner, nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.inner(self.before(x))
        return self.head(result if isinstance(result, torch.Tensor) else result[-1])


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make().eval()
