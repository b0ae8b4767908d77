"""Every test compiles anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    import torch

    torch.compiler.reset()
    yield
    torch.compiler.reset()
