"""Markdown that GitHub shows as it is meant: read here by a Markdown parser, with tables."""

import re

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from torchport.report import phrases
from torchport.report.markdown import LAYERS, SUGGESTIONS, TODOS, code, plain, render
from torchport.runs.report import Report

from .sample import passing, unsupported
from .views import EVERY, HUNK, NASTY, full, many, run_of

PARSER = MarkdownIt("gfm-like", {"linkify": False, "html": True})
ROOM = 1 << 20
"""What a step summary of GitHub holds, in bytes."""


def tokens(text: str) -> list[Token]:
    return PARSER.parse(text)


def texts(text: str, kind: str) -> list[str]:
    """What a reader sees in each heading, cell or item."""
    found = tokens(text)
    opened = [i + 1 for i, token in enumerate(found) if token.type == f"{kind}_open"]
    return [_seen(found[i]) for i in opened if found[i].type == "inline"]


def _seen(inline: Token) -> str:
    return "".join(child.content for child in inline.children or [])


def rows(text: str) -> list[list[str]]:
    """The cells of each row of the body of every table."""
    found = tokens(text)
    starts = [i for i, token in enumerate(found) if token.type == "tr_open"]
    ends = [i for i, token in enumerate(found) if token.type == "tr_close"]
    cells = [
        [_seen(found[i + 1]) for i in range(start, end) if found[i].type == "td_open"]
        for start, end in zip(starts, ends, strict=True)
    ]
    return [row for row in cells if row]


def test_a_pass_has_the_verdict_the_layers_and_the_seconds() -> None:
    text = render(run_of(passing()))
    verdict, table = texts(text, "heading")
    assert verdict == "✅ PASS: Net to candle: all 3 layers agree with PyTorch (noise floor x 4)"
    assert table == "Nearest to the limit"
    assert [row[:3] for row in rows(text)] == [
        ["pass", name, "Linear"] for name in ("head", "encoder", "Net")
    ]
    assert all(len(row) == 7 for row in rows(text))
    assert "Took 6.5 s (capture 1.5, convert 0.2, build 4.0, run 0.5, compare 0.2)" in text


def test_a_fail_names_the_culprit_with_all_that_is_known() -> None:
    text = render(run_of(full()))
    assert texts(text, "heading")[:2] == [
        "❌ FAIL: Net to candle: layer_norm: eps is 1e-05 where the model has 1e-12, in head (Linear), lib/norms.py:12",
        "Culprit: head (torch.nn.Linear)",
    ]
    shown = texts(text, "paragraph")
    for fact in (
        "2 of 4 layers diverge (noise floor x 4)",
        "source: net.py:4",
        "operation: aten.layer_norm.default at lib/norms.py:12: 5e+04 times the limit",
        "suggestion: eps is 1e-05 where the model has 1e-12 (explains 99.9 % of the error)",
        "snippet: out/snippets/head",
    ):
        assert fact in shown
    head = full().layers[1]
    assert head.own is not None
    numbers = ["0.5", phrases.share_of_limit(head.own), "0.5", f"{head.own.cosine:.7g}"]
    assert rows(text)[0] == ["FAIL", "head", "Linear", *numbers]


def test_edits_are_a_diff() -> None:
    (block,) = [token for token in tokens(render(run_of(full()))) if token.type == "fence"]
    assert block.info == "diff" and block.content == HUNK


def test_todos_are_a_table() -> None:
    text = render(run_of(unsupported()))
    assert texts(text, "heading")[1] == "12 to do"
    assert rows(text)[0] == ["aten.foo.default", "head", "net.py:9", "nothing maps it"]


@pytest.mark.parametrize("kind", EVERY)
def test_nothing_from_outside_is_markup(kind: str) -> None:
    found = tokens(render(run_of(EVERY[kind])))
    inline = [child for token in found for child in token.children or []]
    kinds = {token.type for token in (*found, *inline)}
    assert not any(kind.startswith(("html", "em_", "link", "image", "s_", "hr")) for kind in kinds), kinds
    assert sum(token.type == "heading_open" for token in found) <= 4
    assert all(len(row) in (4, 7) for row in rows(render(run_of(EVERY[kind]))))


def test_names_are_shown_as_they_are() -> None:
    seen = " ".join(NASTY.split())
    (cell,) = rows(f"| a |\n| --- |\n| {code(NASTY)} |")
    assert cell == [seen.replace("\x00", "\ufffd")]
    (paragraph,) = texts(plain(NASTY), "paragraph")
    assert paragraph == seen.replace("\x00", "\ufffd")


@pytest.mark.parametrize("name", ["`", "``x", "a`b``c", "|", "\\|", "x\\"])
def test_backticks_and_pipes_stay_in_their_cell(name: str) -> None:
    (row,) = rows(f"| a | b |\n| --- | --- |\n| {code(name)} | z |")
    assert row == [name, "z"]


def test_what_is_long_is_cut_and_counted() -> None:
    text = render(run_of(many(3000)))
    assert len(rows(text)) == LAYERS + TODOS
    assert f"and {3004 - LAYERS} more layers, all of them in report.json" in text
    assert f"and {3000 - TODOS} more operations, all of them in report.json" in text


def test_the_longest_report_fits_a_step_summary() -> None:
    report = _with_long_texts(many(300))
    text = render(run_of(report))
    assert len(text.encode()) < ROOM
    assert re.search(r"and \d+ more lines, all of them in report.json", text)
    assert f"and {100 - SUGGESTIONS} more suggestions" in text


def _with_long_texts(report: Report) -> Report:
    assert report.first_divergence is not None
    long = "🙂" * 5000
    layers = tuple(one.model_copy(update={"name": long, "type": long}) for one in report.layers)
    todos = tuple(one.model_copy(update={"op": long, "layer": long, "reason": long}) for one in report.todos)
    suggestion = report.first_divergence.suggestions[0].model_copy(update={"text": long})
    divergence = report.first_divergence.model_copy(
        update={
            "edits": (f"{long}\n" * 100,),
            "suggestions": (suggestion,) * 100,
            "layer": long,
            "reason": long,
        }
    )
    return report.model_copy(
        update={"layers": layers, "todos": todos, "first_divergence": divergence, "model": long}
    )


def test_a_diff_with_a_fence_in_it_stays_one_block() -> None:
    report = full()
    assert report.first_divergence is not None
    hunk = "@@ -1 +1 @@\n+```\n+# heading\n"
    divergence = report.first_divergence.model_copy(update={"edits": (hunk,)})
    text = render(run_of(report.model_copy(update={"first_divergence": divergence})))
    assert [token.content for token in tokens(text) if token.type == "fence"] == [hunk]
