"""Names are shown so that a terminal takes none of them for a command."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from torchport.cli import main
from torchport.report.escaping import escaped


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("layers.0.größe 層", "layers.0.größe 層"),
        ("red\x1b[31m", "red\\x1b[31m"),
        ("two\nlines\t", "two\\nlines\\t"),
        ("\u202egnp", "\\u202egnp"),
        ("", ""),
    ],
)
def test_what_cannot_be_printed_is_escaped_and_all_else_is_as_it_is(name: str, shown: str) -> None:
    assert escaped(name) == shown


def test_diff_and_its_errors_show_names_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for file, value in (("a", 0.0), ("b", 1.0)):
        save_file(
            {"x\x1b[2J": torch.full((4,), value), f"only\x07{file}": torch.ones(1)}, f"{file}.safetensors"
        )
    assert main(["diff", "a.safetensors", "b.safetensors"]) == 1
    assert main(["diff", "a.safetensors", "b.safetensors", "--map", "x\x1b=y"]) in (1, 2)
    out, err = capsys.readouterr()
    assert "x\\x1b[2J" in out and "only\\x07a" in out
    assert not {"\x1b", "\x07"} & set(out + err), out + err
