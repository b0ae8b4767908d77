"""The zoo: models that must port with no TODO and pass at every layer, one short factory each.

Every factory is a SPEC: `torchport port benchmarks.zoo:bert --to candle`. Weights are random and seeded, those in
`trained` come in Python packages. `PROVEN` is what `make test` runs; `make zoo` runs all.
"""

from . import generative, language, layers, sound, trained, vision
from .entries import OTHER_SIZES, PROVEN, SMALL, ZOO, Factory, Subject, at_other_sizes, ids, train_statistics
from .layers import Cnn, Mlp

assert generative and language and layers and sound and trained and vision  # importing them fills the list
globals().update(ZOO)
globals().update({f"{name}_elsewhere": at_other_sizes(name) for name in OTHER_SIZES})

__all__ = [
    "OTHER_SIZES",
    "PROVEN",
    "SMALL",
    "ZOO",
    "Cnn",
    "Factory",
    "Mlp",
    "Subject",
    "ids",
    "train_statistics",
]
