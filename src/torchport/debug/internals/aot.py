"""What seeing every graph needs of AOTAutograd: that it makes graphs anew, and takes none from its cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torchport.debug.internals.needs import Need

NEEDS = (
    Need(
        "AOTAutograd's cache",
        "torch._functorch.config",
        "enable_autograd_cache",
        "torchport_inductor",
    ),
)


@contextmanager
def graphs_made_anew() -> Iterator[None]:
    """Within, AOTAutograd uses no cache: on a hit it would make no graphs, so that there would be none to look at.

    From torch 2.14 on this is so for this thread alone. Before, it is for the process, but Dynamo compiles one thing
    at a time, under a lock.
    """
    from torch._functorch import config

    with config.patch(enable_autograd_cache=False):
        yield
