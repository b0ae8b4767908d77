"""Models that are compared with copies of themselves, into which faults are put."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

X = torch.linspace(-2, 2, 4 * 7 * 32).reshape(4, 7, 32).sin() * 1.5


class Block(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.up = nn.Linear(size, size)
        self.act: nn.Module = nn.GELU()
        self.down = nn.Linear(size, size)
        self.residual, self.scale = True, 1.0

    def forward(self, x: Tensor) -> Tensor:
        y = self.down(self.act(self.up(self.norm(x))) * self.scale)
        return x + y if self.residual else y


class Net(nn.Module):
    def __init__(self, size: int = 32, depth: int = 2):
        super().__init__()
        self.blocks = nn.Sequential(*(Block(size) for _ in range(depth)))
        self.head = nn.Linear(size, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(x))


def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


class Reversed(nn.Linear):
    """The same sums in another order: honest, and not the same bits."""

    def forward(self, x: Tensor) -> Tensor:
        y = (x.flip(0, -1) @ self.weight.flip(-1).T).flip(0)
        return y if self.bias is None else y + self.bias


class Halved(nn.Linear):
    """A cast to half precision that the outside does not show."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x.half(), self.weight.half(), self.bias.half()).float()


def instead(model: nn.Module, path: str, kind: type[nn.Linear]) -> None:
    """Puts another class in the place of a Linear, with the same weights."""
    old = model.get_submodule(path)
    assert isinstance(old, nn.Linear)
    new = kind(old.in_features, old.out_features)
    new.load_state_dict(old.state_dict())
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, new)


def honest(model: nn.Module) -> nn.Module:
    """A copy that sums in another order in every Linear."""
    other = copy.deepcopy(model)
    for path, module in list(other.named_modules()):
        if type(module) is nn.Linear:
            instead(other, path, Reversed)
    return other


class Renamed(nn.Module):
    """Net under other names, and with its blocks in a loop."""

    def __init__(self, model: Net):
        super().__init__()
        self.layers = nn.ModuleList(copy.deepcopy(model.blocks))
        self.out = copy.deepcopy(model.head)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


class Twice(nn.Module):
    """One module called `times` times."""

    def __init__(self, times: int = 2):
        super().__init__()
        self.first, self.shared, self.times = nn.Linear(32, 32), nn.Linear(32, 32), times

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for _ in range(self.times):
            x = self.shared(x).tanh()
        return x


@dataclass
class Result:
    total: Tensor
    parts: tuple[Tensor, ...]
    count: int = 2


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: Tensor, other: Tensor, *, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
        left, right = self.left(x), self.right(other)
        return left + right if bias is None else left + right + bias, left - right


class Many(nn.Module):
    """Several inputs by position and by name, several outputs in a dataclass."""

    def __init__(self, by_name: bool = False):
        super().__init__()
        self.inner, self.by_name = Inner(), by_name

    def forward(self, x: Tensor, y: Tensor, *, bias: Tensor) -> Result:
        if self.by_name:
            one, other = self.inner(other=y, bias=bias * 2, x=x)
        else:
            one, other = self.inner(x, y, bias=bias * 2)
        return Result(one * other, (one, other))


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.relu, self.out = nn.Linear(32, 32), nn.ReLU(inplace=True), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.fc(x))
        x += 1
        return self.out(x)


class Tied(nn.Module):
    """Token ids in, and the embedding's weight again as the head's."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(24, 32)
        self.mid = nn.Linear(32, 32)
        self.head = nn.Linear(32, 24, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> dict[str, Tensor]:
        return {"logits": self.head(self.mid(self.embed(ids)).tanh())}


class _WrongBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, wrong: str) -> Tensor:  # type: ignore[no-untyped-def, override]
        ctx.save_for_backward(x, weight)
        ctx.wrong = wrong
        return x @ weight.T

    @staticmethod
    def backward(ctx, gradient: Tensor):  # type: ignore[no-untyped-def, override]
        x, weight = ctx.saved_tensors
        of_x, of_weight = gradient @ weight, gradient.flatten(0, -2).T @ x.flatten(0, -2)
        factor = 1.0001
        return (
            of_x * factor if ctx.wrong == "input" else of_x,
            of_weight * factor if ctx.wrong == "weight" else of_weight,
            None,
        )


class WrongInput(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return _WrongBackward.apply(x, self.weight, "input") + self.bias


class WrongWeight(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return _WrongBackward.apply(x, self.weight, "weight") + self.bias


class Detached(nn.Module):
    """Net with no gradient behind its first block."""

    def __init__(self, model: Net):
        super().__init__()
        self.blocks, self.head = copy.deepcopy(model.blocks), copy.deepcopy(model.head)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks[0](x).detach()
        return self.head(self.blocks[1](x))


class Looped(Detached):
    """The same without the cut."""

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks[1](self.blocks[0](x)))
