"""A layer of your own, and how it becomes neurons.

    python examples/marble/custom_layer.py

Any module works without a converter: it is made from its operations. A converter is for a layer that should have
neurons of your choosing, or that uses an operation which torchport does not know. It is given a composer, the module,
and what arrives, and gives what the layer gives.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchport import marble
from torchport.errors import ConvertError
from torchport.targets.marble.composer import Composer, Value


class Snake(nn.Module):
    """x + sin²(a·x) / a, with a learned a for each feature."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.sin(self.a * x).square() / self.a


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.snake, self.last = nn.Linear(6, 12), Snake(12), nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.snake(self.first(x)))


def convert_snake(composer: Composer, module: Snake, x: Value) -> Value:
    """Three groups: a weighted sum for a·x, a sine, and a product of the sine with itself, which a last sum weights."""
    a = module.a.detach()
    angle = composer.weighted((x, composer.array("a", a)))
    sine = composer.function("aten.sin.default", angle)
    square = composer.product(sine, sine)
    return composer.weighted((x, 1), (square, composer.array("1/a", 1 / a)))


def main() -> None:
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(4, 6)

    marble.unsupported_layer(Snake)  # A stub, for a layer that nobody has written a converter for yet.
    try:
        marble.convert_model(model, x)
    except ConvertError as error:
        print(f"with the stub: {error.message}")
        assert "Snake is not supported for conversion" in error.message

    marble.register_layer(Snake, replace=True)(convert_snake)
    core = marble.convert_model(model, x)
    print("with the converter:")
    for group in core.groups():
        if group.layer == "snake":
            print(f"  {group.kind.value:<14} {group.work:<18} {group.neurons} neurons")

    verdict = marble.validate(core, model, x)
    print(
        f"  {'agrees' if verdict.passed else 'does not agree'} with PyTorch, {verdict.compared} values compared"
    )
    print(f"  compared by what comes after them: {', '.join(verdict.uncompared)}")
    assert verdict.passed and verdict.uncompared == ("snake",)


if __name__ == "__main__":
    main()
