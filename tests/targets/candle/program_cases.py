"""Small models that did not compile once, or were proven wrong, refused or stopped for no good reason.

Most were found by `make fuzz`. Each is a case of its own in `test_programs.py`: a class that takes no arguments, the
inputs for a batch and a length, and the axes that stay free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from torchport.targets.candle.rust import snake

CASES: dict[str, Case] = {}


@dataclass(frozen=True)
class Case:
    """A model that must be proven, at its own size and at others."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int, int], tuple[Any, ...]]
    dynamic: str | None


def matrix(batch: int, length: int) -> tuple[Tensor]:
    return (torch.linspace(-2, 2, batch * length).sin().view(batch, length),)


def square(batch: int, length: int) -> tuple[Tensor]:
    return (matrix(batch, 4)[0],)


def case(
    inputs: Callable[[int, int], tuple[Any, ...]] = square, dynamic: str | None = None
) -> Callable[[Callable[[], nn.Module]], Callable[[], nn.Module]]:
    def decorate(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        CASES[snake(make.__name__)] = Case(make, inputs, dynamic)
        return make

    return decorate


class Dense(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(x).tanh()


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(4, 4)

    def forward(self, x: Tensor, layer: Tensor) -> Tensor:
        return self.dense(x) * layer


# values that are moved, hidden or computed in another order


@case()
class ReadAfterItStartedALoop(nn.Module):
    """`ys` moves into the loop's variable while `flip` still waits to be written."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Dense(), Dense()])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = x.relu()
        turned, hidden = first.flip(0), first
        for layer in self.layers:
            hidden = layer(hidden)
        return turned - hidden, hidden


@case()
class WeightStartsALoop(nn.Module):
    """The loop's variable starts with a field, which cannot be moved out of the struct."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.ones(4))
        self.layers = nn.ModuleList([Dense(), Dense()])

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.start
        for layer in self.layers:
            hidden = layer(hidden)
        return x + hidden


@case(lambda batch, _: (*square(batch, 0), torch.full((4,), 0.5)))
class VariablesAreCalledLikeTheItem(nn.Module):
    """What the loop walks with would be called `layer`, as its variable and an input are."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Scaled(), Scaled()])
        self.blocks = nn.ModuleList([Dense(), Dense()])

    def forward(self, x: Tensor, layer: Tensor) -> Tensor:
        for item in self.layers:
            x = item(x, layer)
        block = x * 2
        for item in self.blocks:
            block = item(block)
        return block


@case()
class CalledAgainBeforeItIsRead(nn.Module):
    """The first call of `dense` is read last; it must not be written behind the others."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(4, 4)
        self.inside = Dense()
        self.blocks = nn.ModuleList([Dense(), Dense()])

    def forward(self, x: Tensor) -> Tensor:
        early, within, block = self.dense(x), self.inside.dense(x), self.blocks[1](x)
        late, whole = self.dense(x * 2), self.inside(x * 3)
        for layer in self.blocks:
            x = layer(x)
        return late.square() + early + whole * within - block * x


# names


def _named(name: str) -> type[nn.Module]:
    class Named(Dense):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("DType", torch.arange(4))

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + self.DType + torch.arange(4, device=x.device)

    Named.__name__ = Named.__qualname__ = name
    return Named


_NAMES = """
    DType Device Module Probe Result Tensor VarBuilder Config Linear Embedding Activation Lstm Option Some None Ok Err
    Vec String Box Default Clone Copy Debug Drop Fn Into From Iterator ToString Send Sized PartialEq Self self_ crate
    Model Checker usize f64 nn ops check candle std serde tied 0 層 été
"""


@case()
class ClassesAreCalledLikeWhatTheFileKnows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([_named(name)() for name in _NAMES.split()])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@case(
    lambda batch, length: ({"a.b": matrix(batch, length)[0], "a_b": matrix(batch, length)[0]},),
    "X.a.b:0,X.a.b:1,X.a_b:0,X.a_b:1",
)
class InputsAndSizesHaveOddNames(nn.Module):
    """Two inputs become `x_a_b`, and a size is read from an input in capitals."""

    def forward(self, X: dict[str, Tensor]) -> Tensor:
        self_ = X["a.b"].exp()
        size = X["a_b"] * X["a_b"].shape[1]
        match_ = self_ + size
        self_ = match_.mean(0) * match_.amax(0) + match_.sin().amin(0)
        return self_ * X["a.b"].new_ones(X["a.b"].shape[1])


@case()
class LastSizesAreOfOneName(nn.Module):
    """Two results and a number of the model's own config would all be called `out_features`."""

    def __init__(self) -> None:
        super().__init__()
        self.config = nn.Linear(4, 4)
        self.first, self.second = nn.Linear(4, 3), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.config(x)
        return self.first(x), self.second(x)


@case()
class ResultsHaveOneName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.first(x), self.second(x)


@case()
class SizeIsReadFromTwoPlaces(nn.Module):
    """Two numbers of `forward` would be kept in fields of one name."""

    def __init__(self) -> None:
        super().__init__()
        self.config = nn.Identity()
        self.config.head_dim, self.config.hidden_size, self.config.num_heads = 8, 32, 4
        self.wide = nn.Linear(4, 32)
        self.inside = Halves()

    def forward(self, x: Tensor) -> Tensor:
        return self.inside(self.wide(x))


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head_dim, self.hidden_size, self.num_heads = 8, 32, 4

    def forward(self, x: Tensor) -> Tensor:
        heads = x.view(x.shape[0], self.num_heads, self.head_dim)
        return (
            heads.reshape(x.shape[0], self.hidden_size)[:, self.head_dim : 2 * self.head_dim] * self.head_dim
        )


# outputs


@case()
class GivesTwelveTensors(nn.Module):
    """More than a tuple may hold, from a module inside and from the model."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = Many(12)
        self.few = Many(8)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        many = self.inside(x)
        return (*many[:3], sum(many[3:]), *self.few(x))


class Many(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(x * index for index in range(2, self.count + 2))


@case(matrix, "x:0,x:1")
class GivesNumbers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = Numbers()

    def forward(self, x: Tensor) -> tuple[Any, ...]:
        rows, hidden, count, _ = self.inside(x)
        return (
            hidden.reshape(rows, -1) / rows,
            rows,
            x.shape[1] * 2 + 1,
            x.shape[0] / 2,
            3,
            None,
            "text",
            count,
            x,
        )


class Numbers(nn.Module):
    def forward(self, x: Tensor) -> tuple[int, Tensor, int, float]:
        return x.shape[0], x * 2, x.numel(), 2.5


# sizes


@case(matrix, "x:0,x:1")
class LengthsMayBeShorterThanWhatIsTaken(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        size = x.shape[1]
        slices = (
            x[:, -3:],
            x[:, :-3],
            x[:, max(size - 3, 0) :],
            x[:, : max(size - 3, 1)],
            x[:, min(size, 4) - 1 :],
        )
        numbers = x * (size - 7) + (size - 5) % 3 + (2 * size - 9) // 2, x.roll(size - 4, 1)
        bounds = x[:, : size - 3], x[:, size - 3 :], x[:, size // 2 - 2 :], x[:, -size:]
        made = torch.zeros(max(2 * size - 9, 1)), torch.arange(size - 9, size), x.tril(size - 6)
        return *slices, *numbers, *bounds, *made


@case(matrix, "x:0,x:1")
class TensorsAreMadeOfSizesAlone(nn.Module):
    """The only operation of the model reads no tensor, but a list of sizes."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.ones(x.shape[0], x.shape[1], dtype=torch.int64)


@case()
class RangesEndBetweenNumbers(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        whole = [torch.arange(0, 4.0, dtype=torch.int64), torch.arange(2.5, dtype=torch.int64)]
        part = [torch.arange(0.5, 5.0, 1.5, dtype=torch.int64), torch.arange(-1.5, 2.2, dtype=torch.int64)]
        small = [torch.arange(1.0, 3.5, dtype=torch.int32), torch.arange(2.5, dtype=torch.uint8)]
        return (x + whole[0], *whole, *part, *small)


@case(lambda batch, length: (matrix(batch, length * 2)[0][:, ::2],), "x:0,x:1")
class OneElementHasAnyStride(nn.Module):
    """A recorded tensor of length 1 keeps the stride of the one that it was taken from."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x[:1, :1], x.mean()


@case(lambda batch, length: (matrix(batch, length + 1)[0],), "self_:0,self_:1")
class FreeAxesAreSqueezed(nn.Module):
    """Squeezing leaves a free axis where it is, for the lengths that the port takes."""

    def forward(self, self_: Tensor) -> Tensor:
        return self_.unsqueeze(-1).sum(-1).squeeze(-1) + self_.shape[1]


# inputs and state


@case(lambda batch, length: ())
class TakesNothing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 12).view(3, 4))

    def forward(self) -> Tensor:
        return self.weight @ self.weight.t()


@case(lambda batch, length: (torch.polar(torch.ones(batch, 4), matrix(batch, 4)[0]),))
class TakesComplexNumbers(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.real + 1, x * x


@case()
class GivesItsCounter(nn.Module):
    """What is returned is the buffer itself, which is put back after the model has run."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.calls += 1
        return x * self.calls, self.calls


@case()
class PartsOfNoElements(nn.Module):
    """No row is chosen, so that a view of the last columns would begin behind the storage."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        chosen = x[x[:, 0] > 9]
        first, last = chosen.chunk(2, dim=-1)
        return x.relu(), first * last + 1, chosen[:, 1:] * 2, chosen[:, 3], nn.functional.glu(chosen).sum(0)
