"""Names are shown so that a terminal takes none of them for a command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import BaseModel
from safetensors.torch import save_file

from torchport.cli import main
from torchport.report import changes, phrases
from torchport.report.against import compare_runs
from torchport.report.escaping import escaped
from torchport.report.formats import FORMATS, renderer
from torchport.report.notebook import render as notebook
from torchport.report.printable import printable
from torchport.runs.control_flow import ControlFlowSummary
from torchport.runs.report import Report
from torchport.runs.run import Run
from torchport.targets.base import Todo

from .sample import passing
from .views import full

HOSTILE = "red\x1b[31m\x07\x9b\u202e"


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


def hostile(report: Report) -> Report:
    """The report, in which every text that may come from a model has control characters in it."""

    def spoilt(value: Any, field: str) -> Any:
        if isinstance(value, BaseModel):
            names = type(value).model_fields
            return value.model_copy(update={name: spoilt(getattr(value, name), name) for name in names})
        if isinstance(value, tuple):
            return tuple(spoilt(one, field) for one in value)
        named = ("status", "kind", "arithmetic", "rule", "golden_dtype", "candidate_dtype", "key")
        return f"{value}{HOSTILE}" if isinstance(value, str) and field not in named else value

    todo = Todo(op="aten.foo", layer="head", source="net.py:9", reason="nothing maps it")
    flow = ControlFlowSummary(layer="head", type="cond", source="net.py:3", bodies={})
    beside = {"todos": (todo,), "control_flow": (flow,), "notes": ("first line\nsecond line",)}
    return spoilt(report.model_copy(update=beside), "")


def shown(name: str, folder: Path) -> str:
    """What a renderer makes of that report."""
    run = Run.of(hostile(full()), folder)
    if name == "headline":
        return phrases.headline(printable(run.report))
    if name == "notebook":
        return notebook(run.report)
    if name.startswith("against"):
        change = compare_runs(hostile(passing()), run.report)
        return changes.renderer(name.partition(" ")[2])(change)
    return renderer(name)(run)


@pytest.mark.parametrize("name", [*FORMATS, "headline", "notebook", "against text", "against markdown"])
def test_no_renderer_hands_a_control_character_on(name: str, tmp_path: Path) -> None:
    text = shown(name, tmp_path)
    assert "red" in text
    found = {one for one in text if not one.isprintable()} - {"\n", "\u00a0", "\u2028", "\u3000"}
    if name == "html":
        found &= set(HOSTILE)
    assert not found, (found, text[:2000])


def test_the_lines_of_a_note_are_lines(tmp_path: Path) -> None:
    text = renderer("text")(Run.of(hostile(full()), tmp_path))
    assert "first line\n" in text and "second line" in text and "\\n" not in text
