"""Activations, and layers that are none in evaluation."""

from collections.abc import Iterator

from torch import nn

from .case import Case, rand


def activations() -> Iterator[Case]:
    made: list[nn.Module] = [
        *(nn.ReLU(), nn.ReLU6(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Mish(), nn.Tanh(), nn.Sigmoid()),
        *(nn.ELU(0.7), nn.CELU(0.7), nn.SELU(), nn.LeakyReLU(0.2), nn.Hardtanh(-0.5, 0.7), nn.Hardswish()),
        *(nn.Hardsigmoid(), nn.Hardshrink(0.3), nn.Softshrink(0.3), nn.Softplus(2.0, 1.0), nn.Softsign()),
        *(nn.LogSigmoid(), nn.Threshold(0.1, -3.0), nn.Tanhshrink(), nn.Dropout(0.5), nn.Identity()),
        *(nn.AlphaDropout(0.5), nn.Dropout2d(0.5), nn.FeatureAlphaDropout(0.5), nn.RReLU(), nn.GLU(1)),
    ]
    for one in made:
        yield one, (rand(2, 4, 3, 3),)
    prelu = nn.PReLU(4)
    nn.init.uniform_(prelu.weight)
    yield prelu, (rand(2, 4, 3),)
    yield nn.PReLU(), (rand(2, 4),)
