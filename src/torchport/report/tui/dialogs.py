"""What the dashboard shows over itself: the keys, a layer's snippet, and the question before it stops a port."""

from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from torchport.report.tui import facts, snippets

KEYS = (
    ("↑ ↓ j k", "the layer above or below; PgUp, PgDn, Home and End, too"),
    ("/", "filter by name or type as you type; Enter keeps, Esc clears"),
    ("f", "only the layers that fail, or all again"),
    ("n N", "the next layer that fails, the one before"),
    ("c", "the culprit: the first layer that is wrong by itself"),
    ("o", "the layer's snippet: its tensors and scripts"),
    ("e", "the line of your code, in $EDITOR"),
    ("l", "what your code printed while the port was made"),
    ("Tab", "to the details; there the arrows scroll"),
    ("q", "quit"),
)
SIGNS = (
    (facts.PASS, "its own error is within the limit"),
    (facts.FAIL, "its own error is not"),
    (facts.NOTHING, "it has nothing of its own to judge"),
    (facts.CULPRIT, "it is the culprit"),
)


class Note(ModalScreen[None]):
    """A text over the dashboard, which a key or a click closes."""

    BINDINGS = [Binding("escape,q,enter,question_mark,o", "close", "Close")]

    def __init__(self, title: str, content: RenderableType) -> None:
        super().__init__()
        self._heading, self._content = title, content

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="note") as box:
            box.border_title = escape(self._heading)
            box.border_subtitle = "Esc closes"
            yield Static(self._content)

    def on_click(self) -> None:
        self.dismiss()

    def action_close(self) -> None:
        self.dismiss()


class AskToStop(ModalScreen[bool]):
    """The question whether to stop a port that is still being made."""

    BINDINGS = [
        Binding("y", "answer(True)", "Stop"),
        Binding("n,escape,q", "answer(False)", "Go on"),
    ]

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="question"):
            yield Static("The port is still being made. Stop it and quit?")
            with Horizontal():
                yield Button("Stop (y)", variant="error", id="stop")
                yield Button("Go on (n)", variant="primary", id="go-on")

    def on_mount(self) -> None:
        self.query_one("#go-on").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "stop")

    def action_answer(self, stop: bool) -> None:
        self.dismiss(stop)


def keys() -> Note:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    for sign, meaning in (*KEYS, ("", ""), *SIGNS):
        table.add_row(Text(sign), Text(meaning))
    return Note("Keys and signs", table)


def snippet(layer: str, folder: Path) -> Note:
    lines: list[RenderableType] = [Text("Folder", style="bold"), Text(str(folder), overflow="fold")]
    lines.append(Text("\nRun", style="bold"))
    for line, about in snippets.commands(folder):
        lines.append(Text(line, overflow="fold"))
        lines += [Padding(Text(about, style="dim"), (0, 0, 0, 2))] if about else []
    return Note(f"Snippet of {layer}", Group(*lines))
