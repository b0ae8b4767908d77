"""A layer's picture in characters: the heatmap of its errors, and how its values are spread.

In: a `Picture`. Out: rich `Text`. Every cell has a number, so nothing is shown by colour alone.
"""

import math
from itertools import zip_longest

from rich.text import Text

from torchport.parity.picture import Picture

WIDE = 64
"""With this many columns or more, the cells and bars are twice as wide."""
_LEVELS = (
    (0.3, "#ffffff on #1d3f63"),
    (1.0, "#ffffff on #2f6ea8"),
    (10.0, "#000000 on #f0b27a"),
    (1000.0, "#000000 on #e67e22"),
    (math.inf, "bold #ffffff on #a93226"),
)
"""The largest share of what is allowed of each level, and its colours: calm up to 1, where an element passes."""
_UNKNOWN = "#000000 on #b0b0b0"
_BARS = " ▁▂▃▄▅▆▇█"
_LABEL = 10


def heatmap(picture: Picture, allowed: float | None, width: int) -> Text:
    """The largest error in each part of the tensor, as a multiple of what is allowed, with a legend beside it."""
    room = 6 if width >= WIDE else 4
    rows = [
        Text.assemble(*((share(error, allowed).center(room), _style(error, allowed)) for error in row))
        for row in picture.errors
    ]
    wide = room * max((len(row) for row in picture.errors), default=0)
    legend = _legend(allowed)
    blank = Text(" " * wide)
    rows += [blank] * (len(legend) - len(rows))
    lines = [Text.assemble(row, " ", meaning) for row, meaning in zip_longest(rows, legend, fillvalue=Text())]
    return Text("\n").join(lines)


def share(error: float, allowed: float | None) -> str:
    """A multiple of what is allowed in at most four characters: `·` for no error, `.3`, `12`, `4k`, `9e9`."""
    if not math.isfinite(error):
        return "NaN"
    if error == 0:
        return "·"
    if not allowed:
        return "?"
    times = error / allowed
    if times < 0.95:
        return "0" if times < 0.05 else f"{times:.1f}"[1:]
    for unit, sign in ((1.0, ""), (1e3, "k"), (1e6, "M")):
        if times < 999.5 * unit:
            return f"{times / unit:.0f}{sign}"
    return f"{times:.0e}".replace("+0", "").replace("+", "")


def _style(error: float, allowed: float | None) -> str:
    if error == 0:
        return ""
    if not math.isfinite(error):
        return _LEVELS[-1][1]
    return next(style for most, style in _LEVELS if error / allowed <= most) if allowed else _UNKNOWN


def histograms(picture: Picture, width: int) -> Text:
    """The values of both sides over the same range and on the same scale."""
    top = max((*picture.golden, *picture.candidate, 1))
    times = 2 if width >= WIDE else 1
    lines = [
        Text.assemble((f"{name:<{_LABEL}}", "bold"), (_bars(counts, top, times), colour))
        for name, counts, colour in (
            ("golden", picture.golden, "cyan"),
            ("port", picture.candidate, "yellow"),
        )
    ]
    low, high = f"{picture.low:.2g}", f"{picture.high:.2g}"
    axis = low + high.rjust(len(picture.golden) * times - len(low))
    return Text("\n").join([*lines, Text(" " * _LABEL + axis)])


def _legend(allowed: float | None) -> list[Text]:
    """What the numbers mean, in few words: there is little room beside a picture."""
    if not allowed:
        return [Text("· exact")]
    words = ("≤ .3", "≤ 1", "≤ 10", "≤ 1k", "more")
    signs = ("✓", "✓", "✗", "✗", "✗")
    known = [
        Text.assemble((sign, style), f" {text}")
        for sign, text, (_, style) in zip(signs, words, _LEVELS, strict=True)
    ]
    return [Text("1 limit"), *known, Text("· exact")]


def _bars(counts: tuple[int, ...], top: int, times: int) -> str:
    """One bar for each bin; a bin with any value in it is never blank."""
    heights = (math.ceil(count / top * (len(_BARS) - 1)) for count in counts)
    return "".join(_BARS[height] * times for height in heights)
