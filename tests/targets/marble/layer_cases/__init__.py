"""Layers with their options, and what is computed from tensors alone, on which neurons are compared with torch.

Each case is a module, or a function, and its inputs. All are in float64, so that a wrong formula cannot hide behind
rounding.
"""

from collections.abc import Callable, Iterator

from .activations import activations
from .arithmetic import arithmetic
from .case import Case
from .norms import norms
from .numbers import narrow, not_finite
from .pools import pools
from .sequences import attention, embeddings, positions, recurrent
from .weighted import convolutions, products

__all__ = ["TOPICS", "Case", "narrow", "not_finite"]

TOPICS: dict[str, Callable[[], Iterator[Case]]] = {
    topic.__name__: topic
    for topic in (
        *(products, convolutions, pools, norms, activations, recurrent),
        *(embeddings, attention, arithmetic, positions),
    )
}
