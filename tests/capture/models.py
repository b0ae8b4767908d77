"""Small models, each with one thing that capture must get right."""

import torch
from torch import nn


class Twice(nn.Module):
    """Calls one layer twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.layer(x).relu())


class Block(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size, eps=1e-3)
        self.dense = nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.nn.functional.gelu(self.dense(self.norm(x)))


class Stack(nn.Module):
    """Nested modules in a list, a residual each."""

    def __init__(self, depth: int = 2, size: int = 8) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(size) for _ in range(depth)])
        self.head = nn.Linear(size, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Options(nn.Module):
    """Arguments of every kind: tensors, None, numbers, keyword-only."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(
        self,
        x: torch.Tensor,
        mask: torch.Tensor | None = None,
        scale: int = 2,
        *,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        y = self.layer(x) * scale
        if mask is not None:
            y = y.masked_fill(mask, 0.0)
        return y if bias is None else y + bias


class Nested(nn.Module):
    """Nested dicts, lists and tuples in and out."""

    def forward(self, batch: dict, extra: tuple) -> dict:
        total = batch["x"] + batch["deep"]["y"]
        return {"sum": total, "pair": (extra[0] * 2, [extra[1] - 1]), "note": None, "number": 3}


class Dtypes(nn.Module):
    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor, small: torch.Tensor, half: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        return ids + 1, ~mask, small + small, half * 2


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 4)
        self.head = nn.Linear(4, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(ids))


class Shared(nn.Module):
    """One module under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = self.first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).tanh())


class Normed(nn.Module):
    """Weight norm and spectral norm, of the new and the old kind."""

    def __init__(self) -> None:
        super().__init__()
        utils = torch.nn.utils
        self.weight_norm = utils.parametrizations.weight_norm(nn.Linear(4, 4))
        self.spectral_norm = utils.parametrizations.spectral_norm(nn.Linear(4, 4))
        self.old_weight_norm = utils.weight_norm(nn.Linear(4, 4))
        self.old_spectral_norm = utils.spectral_norm(nn.Linear(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.spectral_norm(self.weight_norm(x))
        return self.old_spectral_norm(self.old_weight_norm(x))


class Tensors(nn.Module):
    """A parameter used directly, buffers that are saved and that are not, constants made in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 2.0, 4))
        self.register_buffer("table", torch.randn(4))
        self.register_buffer("scratch", torch.randn(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.scale + self.table - self.scratch
        return x + torch.tensor([1.0, -2.0, 3.0, 0.5]) * torch.tensor(2.0)


class InPlace(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.add_(1).mul_(x)
        y[:, 0] = 7.0
        return y.relu_()


class Changes(nn.Module):
    """Everything that a forward may change: buffers by value and by name, attributes, its own inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("mean", torch.zeros(4))
        self.calls = 0
        self.last: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        self.mean = self.mean * 0.9 + x.mean(0)
        self.calls += 1
        self.fresh = "made in forward"
        return x.mul_(2) + self.count + self.mean


class Pooled(nn.Module):
    """Batch norm and dropout, which a recording must run as in eval."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4, eps=1e-3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.norm(self.conv(x)).relu()).mean((2, 3))


class Random(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)


class Gate(nn.Module):
    """Branches on a value, which torch.export cannot follow."""

    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.dense = nn.Linear(size, size)
        self.scale = nn.Parameter(torch.ones(size))
        self.factor = 3.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.dense(x) * self.scale
        if y.sum() > 0:
            y = y * self.factor
        return y


GATE_LINE = Gate.forward.__code__.co_firstlineno + 2


class GatedBlock(nn.Module):
    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.gate = Gate(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.gate(self.norm(x)).tanh()


class Gated(nn.Module):
    """A model of which only one class cannot be exported."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([GatedBlock(), GatedBlock()])
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        for block in self.blocks:
            x = block(x)
        return {"logits": self.head(x)}


class Switch(nn.Module):
    """Its root chooses by a value which child to call."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 4)
        self.down = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(x) if x.sum() > 0 else self.down(x)
