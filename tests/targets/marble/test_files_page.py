"""The page on files of neuron graphs says what is so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from torchport.errors import CODES
from torchport.targets.marble.exchange import as_json

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "marble-files.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.filterwarnings("ignore::torchport.targets.marble.exchange.limits.OutputsDifferWarning")
def test_the_example_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block("python"), "marble-files.md", "exec"), {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.json", "tiny.marble"]


def test_the_json_of_the_page_is_read_and_has_every_key_that_is_written() -> None:
    shown = as_json.loads(block("json").encode())
    written = json.loads(b"".join(as_json.pieces(shown)))
    assert written == json.loads(block("json"))


def test_the_page_lists_every_code_of_files_of_graphs() -> None:
    assert re.findall(r"^\| (TP\d+)", PAGE, re.MULTILINE) == [
        code for code in CODES if code.startswith("TP036")
    ]
