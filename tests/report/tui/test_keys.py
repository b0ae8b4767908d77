"""What each key and the mouse do, and what is shown then."""

import time
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from torchport.report.tui import dialogs
from torchport.report.tui.app import Dashboard
from torchport.report.tui.table import LayerTable
from torchport.runs.report import Report

from . import sample
from .conftest import drive, on_screen, until

pytestmark = pytest.mark.slow


def selected(app: Dashboard) -> str | None:
    layer = app.query_one(LayerTable).selected
    return None if layer is None else layer.name


def shown(app: Dashboard) -> list[str]:
    return [layer.name for layer in app.query_one(LayerTable).rows]


def notices(app: Dashboard) -> str:
    return " ".join(notice.message for notice in app._notifications)


def test_a_failing_run_opens_at_the_culprit() -> None:
    app = Dashboard(sample.failing())

    async def steps(pilot: Pilot) -> None:
        assert selected(app) == sample.CULPRIT
        text = on_screen(app)
        assert "✗ encoder.layer.1.attention" in text and "FAIL" in text
        assert "scaled_dot_product_attention" in text and "the scale is 1" in text

    drive(app, steps, (160, 45))


@pytest.mark.parametrize(("down", "up"), [("down", "up"), ("j", "k")])
def test_arrows_and_j_k_go_from_layer_to_layer_and_the_details_follow(down: str, up: str) -> None:
    app = Dashboard(sample.passing())

    async def steps(pilot: Pilot) -> None:
        await pilot.press(down, down)
        assert selected(app) == "encoder.layer.0.attention.key"
        assert "✓ encoder.layer.0.attention.key" in on_screen(app)
        await pilot.press(up)
        assert selected(app) == "encoder.layer.0.attention.query"
        await pilot.press("end")
        assert selected(app) == "Encoder"
        await pilot.press("home", up)
        assert selected(app) == "embeddings.norm", "there is nothing above the first"

    drive(app, steps)


def test_a_filter_works_while_it_is_typed_and_escape_clears_it() -> None:
    app = Dashboard(sample.failing())

    async def steps(pilot: Pilot) -> None:
        everything = shown(app)
        await pilot.press("slash", *"lay")
        assert shown(app) == [name for name in everything if "layer" in name or "norm" in name]
        await pilot.press(*"er.2 lin")
        assert shown(app) == [
            f"encoder.layer.2.{end}" for end in ("attention.query", "attention.key", "dense")
        ]
        assert "3 of 20 layers" in on_screen(app)
        await pilot.press("escape")
        assert shown(app) == everything
        assert not app.query_one(Input).display

    drive(app, steps)


def test_enter_keeps_a_filter_and_gives_the_keys_back() -> None:
    app = Dashboard(sample.failing())

    async def steps(pilot: Pilot) -> None:
        await pilot.press("slash", *"DENSE", "enter", "down")
        assert shown(app) == [f"encoder.layer.{block}.dense" for block in range(3)]
        assert selected(app) == "encoder.layer.1.dense"

    drive(app, steps)


def test_a_filter_that_matches_nothing_says_so() -> None:
    app = Dashboard(sample.failing())

    async def steps(pilot: Pilot) -> None:
        await pilot.press("slash", *"[x]")
        assert shown(app) == []
        assert "No layer matches '[x]'." in on_screen(app)
        await pilot.press("enter", "down", "n", "o")
        assert selected(app) is None

    drive(app, steps)


def test_f_shows_only_what_fails_and_all_again() -> None:
    app = Dashboard(sample.failing())

    async def steps(pilot: Pilot) -> None:
        everything = shown(app)
        await pilot.press("f")
        assert shown(app) == [sample.CULPRIT, "encoder.layer.1.dense"]
        assert selected(app) == sample.CULPRIT
        await pilot.press("f")
        assert shown(app) == everything
        assert selected(app) == sample.CULPRIT

    drive(app, steps)


def test_n_and_shift_n_go_round_what_fails() -> None:
    app = Dashboard(sample.failing())

    async def steps(pilot: Pilot) -> None:
        await pilot.press("home", "n")
        assert selected(app) == sample.CULPRIT
        await pilot.press("n")
        assert selected(app) == "encoder.layer.1.dense"
        await pilot.press("n")
        assert selected(app) == sample.CULPRIT
        await pilot.press("N")
        assert selected(app) == "encoder.layer.1.dense"

    drive(app, steps)


def test_c_goes_to_the_culprit_even_if_a_filter_hides_it() -> None:
    app = Dashboard(sample.failing())

    async def steps(pilot: Pilot) -> None:
        await pilot.press("home", "c")
        assert selected(app) == sample.CULPRIT
        await pilot.press("slash", *"norm", "enter")
        assert sample.CULPRIT not in shown(app)
        await pilot.press("c")
        assert selected(app) == sample.CULPRIT

    drive(app, steps)


def test_where_nothing_fails_n_and_c_say_so() -> None:
    app = Dashboard(sample.passing())

    async def steps(pilot: Pilot) -> None:
        await pilot.press("n", "c")
        assert "No layer fails." in notices(app) and "There is no culprit." in notices(app)
        await pilot.press("f")
        assert shown(app) == [] and "No layer fails." in on_screen(app)

    drive(app, steps)


def test_o_shows_the_folder_of_the_snippet_and_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sample.write_snippet(Path("my snippets/attention"))
    app = Dashboard(sample.failing(snippet="my snippets/attention"))

    async def steps(pilot: Pilot) -> None:
        await pilot.press("o")
        text = on_screen(app)
        assert "│  my snippets/attention " in text
        assert "│  cd 'my snippets/attention' " in text
        assert text.index("│  python plot.py ") < text.index("│  python rerun.py ")
        assert "Draws the layer: heatmaps and histograms." in text and "More of it" not in text
        assert "safetensors" not in text
        await pilot.press("escape")
        assert not isinstance(app.screen, dialogs.Note)

    drive(app, steps)


def test_a_snippet_of_a_run_that_was_moved_is_found_beside_its_report(tmp_path: Path) -> None:
    sample.write_snippet(tmp_path / "snippets" / "attention")
    app = Dashboard(sample.failing(folder=tmp_path, snippet="/gone/snippets/attention"))

    async def steps(pilot: Pilot) -> None:
        await pilot.press("o")
        assert isinstance(app.screen, dialogs.Note)

    drive(app, steps)


def test_other_failing_layers_have_their_snippets_beside_the_report(tmp_path: Path) -> None:
    sample.write_snippet(tmp_path / "snippets" / "encoder.layer.1.dense")
    app = Dashboard(sample.failing(folder=tmp_path, snippet=None))

    async def steps(pilot: Pilot) -> None:
        await pilot.press("n", "o")
        assert isinstance(app.screen, dialogs.Note)
        assert "Snippet of encoder.layer.1.dense" in on_screen(app)

    drive(app, steps)


def test_o_on_a_layer_without_a_snippet_says_so() -> None:
    app = Dashboard(sample.failing())

    async def steps(pilot: Pilot) -> None:
        await pilot.press("home", "o")
        assert "no snippet of embeddings.norm" in notices(app)

    drive(app, steps)


def test_e_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Dashboard(sample.failing())

    async def steps(pilot: Pilot) -> None:
        await pilot.press("e")
        assert "EDITOR is not set" in notices(app)
        monkeypatch.setenv("EDITOR", "vi")
        await pilot.press("e")
        assert "models/encoder.py is not on this machine" in notices(app)

    drive(app, steps)


def test_help_names_every_key_of_the_footer() -> None:
    app = Dashboard(sample.passing())

    async def steps(pilot: Pilot) -> None:
        await pilot.press("question_mark")
        text = on_screen(app)
        for keys, meaning in dialogs.KEYS:
            assert keys in text and meaning in text
        await pilot.press("escape")
        footer = on_screen(app).splitlines()[-1]
        for part in (
            "/ Filter",
            "f Failing",
            "n/N Next",
            "c Culprit",
            "o Snippet",
            "e Edit",
            "? Help",
            "q Quit",
        ):
            assert part in footer

    drive(app, steps)


def test_q_quits() -> None:
    app = Dashboard(sample.passing())

    async def steps(pilot: Pilot) -> None:
        await pilot.press("q")
        assert app.return_code == 0

    drive(app, steps)


def test_a_click_selects_a_layer() -> None:
    app = Dashboard(sample.passing())

    async def steps(pilot: Pilot) -> None:
        await pilot.click(LayerTable, offset=(10, 3))
        assert selected(app) == "encoder.layer.0.attention.key"

    drive(app, steps, (160, 45))


def test_a_click_on_the_footer_is_its_key() -> None:
    app = Dashboard(sample.failing())

    async def steps(pilot: Pilot) -> None:
        await pilot.press("home")
        column = on_screen(app).splitlines()[-1].index("Culprit")
        await pilot.click(offset=(column + 1, 44))
        assert selected(app) == sample.CULPRIT

    drive(app, steps, (160, 45))


def test_five_thousand_layers_are_filtered_as_one_types() -> None:
    app = Dashboard(sample.long(5000))

    async def steps(pilot: Pilot) -> None:
        assert len(shown(app)) == 5000
        start = time.perf_counter()
        await pilot.press("slash", *"block.49")
        assert time.perf_counter() - start < 4, "half a second a key is not quick"
        assert len(shown(app)) == 110
        await pilot.press("escape", "end")
        assert selected(app) == "block.499.linear.9"
        assert "block.499.linear.9" in on_screen(app).split("Details")[0], "the table has scrolled there"
        await pilot.press("f")
        assert len(shown(app)) == 50

    drive(app, steps)


@pytest.mark.parametrize("status", ["fail", "error", "unsupported", "pass"])
def test_a_report_without_layers_is_shown_and_no_key_breaks_it(status: str) -> None:
    app = Dashboard(sample.run_of(Report(status=status, target="candle", model="net")))  # type: ignore[arg-type]

    async def steps(pilot: Pilot) -> None:
        assert "net to candle" in on_screen(app)
        await pilot.press(
            "slash", "f", "n", "N", "c", "o", "e", "l", "down", "end", "question_mark", "escape"
        )
        assert app._exception is None

    drive(app, steps)


@pytest.mark.parametrize("size", [(20, 6), (80, 24), (132, 30), (300, 90)])
def test_any_size_of_terminal_will_do(size: tuple[int, int]) -> None:
    app = Dashboard(sample.failing())

    async def steps(pilot: Pilot) -> None:
        assert "FAIL" in on_screen(app)
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        assert "encoder.layer.1.attention" in on_screen(app)

    drive(app, steps, size)


def test_brackets_in_names_are_not_markup() -> None:
    run = sample.failing()
    layers = tuple(layer.model_copy(update={"name": f"[red]{layer.name}"}) for layer in run.report.layers)
    report = run.report.model_copy(update={"layers": layers, "model": "[bold]x", "first_divergence": None})
    app = Dashboard(sample.run_of(report))

    async def steps(pilot: Pilot) -> None:
        text = on_screen(app)
        assert "[bold]x to candle" in text and "✓ [red]embeddings.norm" in text
        await pilot.press("o")
        before = text.count("[red]embeddings.norm")
        await until(pilot, lambda: on_screen(app).count("[red]embeddings.norm") == before + 1, 5)

    drive(app, steps, (160, 45), notices=True)
