"""Independent pieces of work, several at a time on this machine, or on others by Ray.

In: a function and what it is called with. Out: the results as they come, each with the place of what it is of.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Literal, TypeVar

from torchport.errors import UsageError

Engine = Literal["local", "ray"]
Given = TypeVar("Given")
Result = TypeVar("Result")


def fan_out(
    work: Callable[[Given], Result],
    given: Sequence[Given],
    *,
    engine: Engine = "local",
    jobs: int | None = None,
) -> Iterator[tuple[int, Result]]:
    """The results in the order in which they are there. An error of one ends all, and is raised.

    For Ray, `work` must be a function of a module that the workers can import, or a partial of one.
    """
    return _on_ray(work, given) if engine == "ray" else _here(work, given, jobs)


def _here(
    work: Callable[[Given], Result], given: Sequence[Given], jobs: int | None
) -> Iterator[tuple[int, Result]]:
    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
        places = {pool.submit(work, one): place for place, one in enumerate(given)}
        try:
            for done in as_completed(places):
                yield places[done], done.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _on_ray(work: Callable[[Given], Result], given: Sequence[Given]) -> Iterator[tuple[int, Result]]:
    if importlib.util.find_spec("ray") is None:
        raise UsageError(
            "TP0803",
            "--engine ray needs ray, which is not installed",
            fix="Run `pip install 'torchport[ray]'`.",
        )
    import ray

    if not ray.is_initialized():
        ray.init(address=os.environ.get("RAY_ADDRESS"), log_to_driver=False)
    remote = ray.remote(_called)
    waiting: dict[Any, int] = {remote.remote(work, one): place for place, one in enumerate(given)}
    while waiting:
        (ready,), _ = ray.wait(list(waiting), num_returns=1)
        yield waiting.pop(ready), ray.get(ready)


def _called(work: Callable[[Given], Result], one: Given) -> Result:
    return work(one)
