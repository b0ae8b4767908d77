"""docs/quantisation.md is true: its commands run, and its tables name what is there."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchport.blocks.awq import GROUP
from torchport.blocks.formats import FORMATS
from torchport.cli import main

from ..test_readme import ROOT, blocks

PAGE = ROOT / "docs" / "quantisation.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, cargo: str) -> Iterator[Path]:
    """A directory with the README's model in it, where the commands of the page have run."""
    place = tmp_path_factory.mktemp("page")
    model = next(block for block in blocks(ROOT / "README.md", "python") if block.startswith("# tiny.py\n"))
    (place / "tiny.py").write_text(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for line in "\n".join(blocks(PAGE, "sh")).splitlines():
            assert main(shlex.split(line)[1:]) == 0, line
        yield place


def test_the_commands_of_the_page_run_and_leave_what_it_says(folder: Path) -> None:
    run = folder / "torchport-out" / "tiny"
    report = json.loads((run / "quantization.json").read_text())
    assert report["status"] == "done" and report["plan"]["met"]
    assert report["plan"]["drift"]["outputs"]["sqnr_db"] >= 40
    for name in ("q8_0", "q4_0", "q4_k+q5_0", "plan"):
        assert (run / "quant" / f"{name}.gguf").is_file()
    assert (run / "measured").is_dir() and "<svg" not in (run / "pareto.html").read_text()[:100]
    assert (run / "q4_0.safetensors").is_file()


def test_the_page_names_every_format_and_the_sizes_of_blocks() -> None:
    text = PAGE.read_text()
    assert all(f"`{name}`" in text for name in FORMATS)
    assert {form.size for form in FORMATS.values()} == {32, 256} and f"groups of {GROUP}" in text
