"""The page on messages is run as it stands."""

from __future__ import annotations

import pytest

from tests.test_readme import ROOT, blocks
from torchport.targets.marble.activations import remove_activation

PAGE = ROOT / "docs" / "messages.md"


@pytest.mark.slow
def test_the_code_of_the_page_runs() -> None:
    code = blocks(PAGE, "python")
    assert len(code) == 3
    names: dict[str, object] = {"__name__": "page"}
    try:
        exec("\n".join(code), names)
    finally:
        remove_activation("snake")
