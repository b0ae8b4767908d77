"""What every test finds: an environment that asks no network, the same random numbers, and its tier.

A test that compiles something is marked `builds`; so is one that asks for the fixture `cargo`, itself or by another
fixture. A test that asks for `chromium` is marked `browser`. `make test-fast` leaves out both, and whatever is marked
`slow`. A test without the mark `builds` finds no cargo that works.
"""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

NO_BUILDS = Path(__file__).parent / "no_builds"
TIERS = {"cargo": "builds", "chromium": "browser"}
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.pop("COLUMNS", None)  # Text is as wide as torchport itself makes it.
# Some virtual machines say that they have AMX and die of an illegal instruction when oneDNN takes their word for it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")


def pytest_itemcollected(item: pytest.Item) -> None:
    for fixture, tier in TIERS.items():
        if fixture in getattr(item, "fixturenames", ()):
            item.add_marker(tier)


def pytest_collection_finish() -> None:
    """Looks for garbage seldom, and not among what is imported: all of torch takes a sixth of the time otherwise."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Hides cargo from a test that did not ask for it, and from the fixtures that are set up for it."""
    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("builds") is None:
            patch.setenv("PATH", str(NO_BUILDS), prepend=os.pathsep)
        return (yield)


@pytest.fixture(scope="session")
def cargo() -> str:
    """The path of cargo, for tests and fixtures that build a port."""
    path = shutil.which("cargo")
    assert path is not None, "cargo is not installed"
    return path


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    import torch  # Not above: the process that starts the workers does without.

    torch.manual_seed(0)
