"""What a try of the minifier needs of torch.compile: nothing remembered of earlier tries, and no threads of its own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache

import torch

from torchport.debug.internals.needs import Need

NEEDS = (
    Need("Inductor's settings", "torch._inductor.config", "force_disable_caches", "tries that use no cache"),
    Need("compile threads", "torch._inductor.config", "compile_threads", "tries in a process of their own"),
)


@contextmanager
def nothing_remembered() -> Iterator[None]:
    """Within, torch.compile knows of no graph compiled before, and reads and writes no cache of Inductor's."""
    from torch._inductor import config

    torch.compiler.reset()
    try:
        # Threads of a pool that was started before a fork are not there after it, and would be waited for.
        with config.patch(force_disable_caches=True, compile_threads=1), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "dynamo_pgo force disabled")
            yield
    finally:
        torch.compiler.reset()


@lru_cache(maxsize=1)
def warm_up_inductor() -> None:
    """Lets Inductor find out about the compiler and the processor here, or every process that is split off would."""
    with nothing_remembered(), suppress(Exception):
        torch.compile(lambda x: x + 1, backend="inductor")(torch.ones(8))
