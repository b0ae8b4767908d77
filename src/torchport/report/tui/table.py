"""The table of layers. It draws only the rows that are on the screen, so 5,000 layers cost what 20 do."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from torchport.parity.result import Layer
from torchport.report import phrases
from torchport.report.tui import facts


class _Column(NamedTuple):
    heading: str
    width: int
    text: Callable[[Layer], str]


_NUMBERS = (
    _Column("own error", 9, lambda layer: phrases.own_error(layer.own)),
    _Column("of limit", 8, lambda layer: phrases.share_of_limit(layer.own)),
    _Column("chained", 7, lambda layer: phrases.largest(layer.chained)),
    _Column("cosine", 9, lambda layer: "" if layer.own is None else f"{layer.own.cosine:.6g}"),
)
_TYPE = _Column("type", 13, lambda layer: layer.type.rpartition(".")[2])
_ORDER = (*_NUMBERS[:3], _TYPE, _NUMBERS[3])
"""The columns that are shown if there is room, the most important first."""
_HERE = "›"
_SIGN = 4
_LEAST_NAME = 18


class LayerTable(ScrollView, can_focus=True):
    """Layers in the order in which they end, one of them selected."""

    COMPONENT_CLASSES = {"table--header", "table--selected", "table--fail", "table--pass", "table--empty"}
    BINDINGS = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "go(0)", "First", show=False),
        Binding("end,G", "go(-1)", "Last", show=False),
    ]

    class Selected(Message):
        """The message that another layer is selected, or that none is left."""

        def __init__(self, layer: Layer | None) -> None:
            super().__init__()
            self.layer = layer

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: list[Layer] = []
        self.culprit: str | None = None
        self.empty = ""
        self._at = 0

    @property
    def selected(self) -> Layer | None:
        return self.rows[self._at] if self._at < len(self.rows) else None

    def show(self, layers: Iterable[Layer], empty: str) -> None:
        """Shows other layers; the one that was selected stays selected if it is among them."""
        before = self.selected
        self.rows, self.empty = list(layers), empty
        names = (index for index, layer in enumerate(self.rows) if before and layer.name == before.name)
        self._resize()
        self.select(next(names, 0))

    def append(self, layers: Sequence[Layer]) -> None:
        """Adds layers at the end; the table follows them while the last one is selected."""
        follows = self._at >= len(self.rows) - 1
        self.rows += layers
        self._resize()
        self.select(len(self.rows) - 1 if follows else self._at)

    def select(self, index: int) -> None:
        self._at = max(0, min(index, len(self.rows) - 1))
        visible = max(1, self.size.height - 1)
        top = round(self.scroll_y)
        if self._at < top or self._at >= top + visible:
            self.scroll_to(y=self._at - visible // 2, animate=False)
        self.refresh()
        self.post_message(self.Selected(self.selected))

    def select_where(self, wanted: Callable[[Layer], bool], step: int = 1) -> bool:
        """Selects the next layer that is wanted (the one before with step -1), and goes on at the other end."""
        count = len(self.rows)
        for distance in range(1, count + 1):
            index = (self._at + step * distance) % count
            if wanted(self.rows[index]):
                self.select(index)
                return True
        return False

    def action_move(self, step: int) -> None:
        self.select(self._at + step)

    def action_page(self, direction: int) -> None:
        self.select(self._at + direction * max(1, self.size.height - 2))

    def action_go(self, index: int) -> None:
        self.select(index if index >= 0 else len(self.rows) + index)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        row = -1 if offset is None else round(self.scroll_y) + offset.y - 1
        if 0 <= row < len(self.rows):
            self.select(row)

    def on_resize(self) -> None:
        self._resize()
        self.select(self._at)

    def _resize(self) -> None:
        self.virtual_size = Size(0, len(self.rows) + 1)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        if y == 0:
            return self._line(width, "", "layer", None, self.get_component_rich_style("table--header"))
        row = round(self.scroll_y) + y - 1
        if row < len(self.rows):
            return self._layer_line(width, row)
        text = f"  {self.empty}" if y == 1 and not self.rows else ""
        return _strip(text, width, self.get_component_rich_style("table--empty"))

    def _layer_line(self, width: int, row: int) -> Strip:
        layer = self.rows[row]
        is_culprit = layer.name == self.culprit
        style = self.rich_style
        if row == self._at:
            style += self.get_component_rich_style("table--selected")
        mark = (_HERE if row == self._at else " ") + facts.sign(layer) + (facts.CULPRIT if is_culprit else "")
        bold = Style(bold=True) if is_culprit else Style()
        return self._line(width, mark, layer.name, layer, style + bold)

    def _line(self, width: int, mark: str, name: str, layer: Layer | None, style: Style) -> Strip:
        columns, room = _fitting(width)
        cells = [
            Segment(mark.ljust(_SIGN), style + self._colour_of(layer)),
            Segment(_shortened(name, room), style),
        ]
        for column in columns:
            text = column.heading if layer is None else column.text(layer)
            side = _shortened(text, column.width) if column is _TYPE else text.rjust(column.width)
            cells.append(Segment(f" {side}", style))
        return Strip(cells).adjust_cell_length(width, style)

    def _colour_of(self, layer: Layer | None) -> Style:
        if layer is None or layer.unproven or (layer.own is None and layer.passed):
            return Style()
        colour = self.get_component_rich_style("table--pass" if layer.passed else "table--fail").color
        return Style(color=colour, bold=True)


def _fitting(width: int) -> tuple[list[_Column], int]:
    """The columns that there is room for, in their order on the screen, and the width for names."""
    room = width - _SIGN - 1
    chosen = []
    for column in _ORDER:
        if room - column.width - 1 < _LEAST_NAME:
            break
        chosen.append(column)
        room -= column.width + 1
    return sorted(chosen, key=(_TYPE, *_NUMBERS).index), max(room, 1)


def _shortened(name: str, room: int) -> str:
    """The end of a name that is too long, because it says more than the beginning."""
    return name.ljust(room) if len(name) <= room else f"…{name[len(name) - room + 1 :]}"


def _strip(text: str, width: int, style: Style) -> Strip:
    return Strip([Segment(text, style)]).adjust_cell_length(width, style)
