"""An SVG picture of an fx graph: boxes in layers, coloured by the part of the model that they belong to.

In: the nodes of a graph. Out: an SVG text that needs nothing else. Point at a box for all that is known of it. A graph
that is too large for layers, or a machine without the layout library, gets one column in the order of computation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from torchport.debug.nodes import GraphNode
from torchport.debug.sketching import Picture, Shown, anchors, picture
from torchport.report.html.drawing import Box, Sketch, layout, places

MOST_BOXES, MOST_PLACES = 700, 6_000
"""The most boxes, and rows that edges pass through, that are drawn in layers: more would take seconds."""
_LINE, _PAD, _ROW_GAP, _MARGIN = 15, 8, 34, 24
_CHARACTER = 7.3
_COLOURS = (
    "#dbe9f6", "#fde3c8", "#dcefd9", "#f6d9e0", "#e6def3", "#f5efc4",
    "#d3eeee", "#eadfd3", "#e3e8c9", "#f3d9ef", "#d9dee8", "#ffe0d6",
)  # fmt: skip
_STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1d2733}.title{font-weight:600}.dim{fill:#5b6875}"
    ".edge{fill:none;stroke:#8a97a5;stroke-width:1.2}.box{stroke:#9aa7b4}.input{stroke-dasharray:4 3}"
    ".output{stroke:#1d2733;stroke-width:2}.bad{stroke:#c62828;stroke-width:3}.head{font-size:15px;font-weight:600}"
)
_UNSAFE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold."""


@dataclass(frozen=True)
class Placed:
    """Where everything is: boxes by left and top, and edges as points to pass through."""

    lefts: list[float]
    tops: list[float]
    widths: list[float]
    edges: list[list[tuple[float, float]]]
    width: float
    height: float


def draw(nodes: Sequence[GraphNode], title: str, violated: Collection[str] = ()) -> str:
    """The picture of a graph. Boxes of nodes whose names are in `violated` have a red border."""
    content = picture(nodes)
    note, placed = _placed(content)
    groups = sorted({box.group for box in content.boxes})
    colours = {group: _COLOURS[place % len(_COLOURS)] for place, group in enumerate(groups)}
    about = [f"{len(nodes)} nodes, {len(content.boxes)} boxes; thick borders are outputs", *note]
    legend, head = _legend(colours, placed.width, 46 + 16 * len(about))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {placed.width:.0f} {placed.height + head:.0f}" '
        f'width="{placed.width:.0f}" height="{placed.height + head:.0f}">',
        f"<style>{_STYLE}</style>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text class="head" x="{_MARGIN}" y="28">{_safe(title)}</text>',
        *(
            f'<text class="dim" x="{_MARGIN}" y="{46 + 16 * line}">{_safe(text)}</text>'
            for line, text in enumerate(about)
        ),
        *legend,
        f'<g transform="translate(0 {head:.0f})">',
        *(_edge(points) for points in placed.edges),
        *(
            _box(box, placed, place, colours[box.group], box.name in violated)
            for place, box in enumerate(content.boxes)
        ),
        "</g></svg>",
    ]
    return "\n".join(parts) + "\n"


def _placed(content: Picture) -> tuple[list[str], Placed]:
    """Where everything is, and a note if it is not in layers."""
    sketch = Sketch(tuple(_sized(box) for box in content.boxes), (*content.edges, *anchors(content)))
    if len(sketch.boxes) > MOST_BOXES or places(sketch) > MOST_PLACES:
        return ["too large for layers: drawn in the order of computation"], _in_a_column(content)
    try:
        return [], _in_layers(content, layout(sketch))
    except ImportError:
        note = ["in the order of computation; for layers:", "pip install 'torchport[html]'"]
        return note, _in_a_column(content)


def _sized(box: Shown) -> Box:
    """A box as the layout knows it: only its width counts, which the longest text gives."""
    return Box("op", box.name, max((box.op, *box.lines), key=len))


def _in_layers(content: Picture, drawn: dict[str, Any]) -> Placed:
    if not content.boxes:
        return _in_a_column(content)
    rows, xs, widths = drawn["row"], drawn["x"], drawn["width"]
    heights = [0.0] * (max(rows) + 1)
    for box, row in zip(content.boxes, rows, strict=True):
        heights[row] = max(heights[row], _height(box))
    tops = [float(_MARGIN)]
    for height in heights:
        tops.append(tops[-1] + height + _ROW_GAP)
    shift = _MARGIN - min(x - width / 2 for x, width in zip(xs, widths, strict=True))
    edges: list[list[tuple[float, float]]] = []
    for start, end, *bends in drawn["edges"][: len(content.edges)]:
        through = [
            (x + shift, tops[row] + heights[row] / 2) for row, x in zip(bends[::2], bends[1::2], strict=True)
        ]
        first = (xs[start] + shift, tops[rows[start]] + _height(content.boxes[start]))
        edges.append([first, *through, (xs[end] + shift, tops[rows[end]])])
    right = max(x + width / 2 for x, width in zip(xs, widths, strict=True)) + shift
    return Placed(
        lefts=[x + shift - width / 2 for x, width in zip(xs, widths, strict=True)],
        tops=[tops[row] for row in rows],
        widths=[float(width) for width in widths],
        edges=edges,
        width=max(right + _MARGIN, 480),
        height=tops[-1],
    )


def _in_a_column(content: Picture) -> Placed:
    """Boxes below each other in the order of computation; edges are arcs to their left, wider the further they go."""
    tops, top = [], float(_MARGIN)
    for box in content.boxes:
        tops.append(top)
        top += _height(box) + 10
    arcs = 160.0
    edges = []
    for start, end in content.edges:
        first, last = tops[start] + 12, tops[end] + 12
        out = arcs - min(arcs - _MARGIN, 8 + (last - first) ** 0.5 * 2.4)
        edges.append([(arcs, first), (out, first + 6), (out, last - 6), (arcs, last)])
    count = len(content.boxes)
    return Placed([arcs] * count, tops, [300.0] * count, edges, arcs + 300 + _MARGIN, top + _MARGIN)


def _height(box: Shown) -> float:
    return _LINE * (1 + bool(box.op) + len(box.lines)) + 2 * _PAD - 4


def _edge(points: list[tuple[float, float]]) -> str:
    path = [f"M{points[0][0]:.0f} {points[0][1]:.0f}"]
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        path.append(f"C{x0:.0f} {middle:.0f} {x1:.0f} {middle:.0f} {x1:.0f} {y1:.0f}")
    return f'<path class="edge" d="{" ".join(path)}"/>'


def _box(box: Shown, placed: Placed, place: int, colour: str, is_violated: bool) -> str:
    left, top, width = placed.lefts[place], placed.tops[place], placed.widths[place]
    look = " ".join(
        word
        for word, wanted in (
            ("box", True),
            ("input", box.kind == "input"),
            ("output", box.is_output),
            ("bad", is_violated),
        )
        if wanted
    )
    room = int((width - 14) / _CHARACTER)
    lines = [(box.name, "title"), (box.op, ""), *((line, "dim") for line in box.lines)]
    texts = "".join(
        f'<text class="{style}" x="{left + 8:.0f}" y="{top + _PAD + 10 + number * _LINE:.0f}">{_safe(_cut(line, room))}'
        "</text>"
        for number, (line, style) in enumerate(lines)
    )
    return (
        f"<g><title>{_safe(box.about)}</title>"
        f'<rect class="{look}" x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{_height(box):.0f}" rx="5" '
        f"fill={quoteattr(colour)}/>{texts}</g>"
    )


def _legend(colours: dict[str, str], width: float, top: float) -> tuple[list[str], float]:
    """What the colours stand for, in as many lines as it takes, and the height of all above the boxes."""
    parts, x, y = [], float(_MARGIN), top
    for group, colour in colours.items():
        name = group or "the model itself"
        taken = 40 + len(name) * _CHARACTER
        if x > _MARGIN and x + taken > width:
            x, y = float(_MARGIN), y + 22
        parts.append(
            f'<rect class="box" x="{x:.0f}" y="{y:.0f}" width="16" height="14" rx="3" fill="{colour}"/>'
            f'<text x="{x + 22:.0f}" y="{y + 12:.0f}">{_safe(name)}</text>'
        )
        x += taken
    return parts, y + 14


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(room - 1, 1)]}…"


def _safe(text: str) -> str:
    return escape(_UNSAFE.sub("�", text))
